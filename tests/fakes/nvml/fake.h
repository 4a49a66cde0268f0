/* What the parts of the fake NVML library share. README.md says what can be set. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int Return;
typedef unsigned Uint;
typedef unsigned long long Ulong;
enum { OK, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 6, TOO_SMALL = 7,
       TIMEOUT = 10, GPU_LOST = 15, VERSION_MISMATCH = 25 };

/* One GPU, or one MIG instance of `parent`. The numbers are those that its load is made of. */
typedef struct gpu {
    int number, gpu_instance, compute_instance;
    struct gpu *parent;
    long calls, n_intervals;
    double load_period, busy_share, *intervals;
    double mib, used_mib; /* of an instance */
    double idle_watts, busy_watts, window, refresh, reset_at;
    double pcie_tx, pcie_rx, nvlink_tx, nvlink_rx, throttle_power, throttle_thermal;
    int garbage, has_errors, architecture, power_is_average, n_links, links_are_five, has_energy, field_errors[256];
    Ulong counter_wrap;
} *Gpu;

/* What befalls the calls of one symbol. */
typedef struct { int known; long calls, fail_after, hang_after, abort_after, flaky_every, slow_us; int fail_code, flaky_code; } Fate;

#define MAX_GPUS 16
extern struct gpu gpus[MAX_GPUS], instances[MAX_GPUS * 8];
extern int count, n_instances, reversed, lost_number;
extern long lost_after;

double now(clockid_t clock);
double stepped(double time, double step);
double busy_seconds(Gpu g, double time); /* since the clock's zero */
double joules(Gpu g, double time);
double mean_watts(Gpu g, double over_seconds);
int is_busy(Gpu g);
int is_due(void); /* whether the faults have begun */
void load_settings(void);
const char *text(Gpu g, const char *key, const char *otherwise);
double number(Gpu g, const char *key, double otherwise);
Return enter(const char *symbol, Fate *fate, Gpu g);

#define EXPORT __attribute__((visibility("default")))
#define FUNCTION(name, gpu, ...) \
    EXPORT Return name(__VA_ARGS__) { static Fate fate; Return entered = enter(#name, &fate, gpu); if (entered) return entered;
