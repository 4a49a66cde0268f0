/* A libamd_smi.so for AMD's own Python package (amdsmi 7.0), with GPUs whose load is known.

   The structures are those of amdsmi.h in ROCm 7.0, as far as they are filled in. What is not written out here is a weak
   stub that says "not supported" (`build` in __init__.py makes it). FAKE_AMDSMI holds the settings, "key=value;key=value":
     count           GPUs, 2
     fail            functions with the status that they return: "amdsmi_init=34,amdsmi_get_power_info=2"
     hang            a function that never returns
     abort           a function that ends the process by abort()
     trigger         a file: none of these befalls a call before it is there
     lost            GPU:CALLS, a GPU that says "not found" after so many calls
     current_power   0: it is the average that is told, as before the MI300
     edge            0: there is no edge temperature, as on the MI300
     uuid            the 16 digits that all GPUs have for their UUID and serial number
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int Status;
typedef struct gpu { int number; long calls; } *Gpu;
enum { OK, INVALID, NOT_SUPPORTED, NOT_FOUND = 31, NOT_INITIALIZED = 32 };
#define MAX_GPUS 8
#define NO_16 0xFFFF
#define NO_32 0xFFFFFFFFu
#define LOAD_SECONDS 2.0
#define IDLE_WATTS 90.0
#define BUSY_WATTS 600.0
#define ENERGY_UNIT_MICROJOULES 15.259f
#define ACCUMULATIONS_PER_SECOND 1000.0

static struct gpu gpus[MAX_GPUS];
static int count, initialized;

static const char *setting(const char *key, const char *otherwise) {
    static char value[8][512];
    static int turn;
    const char *all = getenv("FAKE_AMDSMI");
    size_t length = strlen(key);
    for (const char *at = all; at && *at; at += strcspn(at, ";"), at += *at == ';')
        if (!strncmp(at, key, length) && at[length] == '=') {
            char *into = value[turn++ % 8];
            snprintf(into, 512, "%.*s", (int)strcspn(at + length + 1, ";"), at + length + 1);
            return into;
        }
    return otherwise;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double busy_share(Gpu g) { return 0.1 + 0.09 * g->number; }

/* Since the clock's zero: busy for the first part of every period. */
static double busy_seconds(Gpu g, double t) {
    double periods = floor(t / LOAD_SECONDS), each = LOAD_SECONDS * busy_share(g);
    return periods * each + fmin(t - periods * LOAD_SECONDS, each);
}

static double watts(Gpu g) {
    double t = now();
    return busy_seconds(g, t) - busy_seconds(g, t - 1e-3) > 0 ? BUSY_WATTS : IDLE_WATTS;
}

static Status enter(const char *function, Gpu g) {
    const char *hang = setting("hang", ""), *lost = setting("lost", "-1:0"), *trigger = setting("trigger", "");
    if (*trigger && access(trigger, F_OK)) return initialized || !strcmp(function, "amdsmi_init") ? OK : NOT_INITIALIZED;
    while (!strcmp(hang, function)) sleep(1);
    if (!strcmp(setting("abort", ""), function)) abort();
    for (const char *at = strstr(setting("fail", ""), function); at; at = NULL)
        if (at[strlen(function)] == '=') return atoi(at + strlen(function) + 1);
    if (!initialized) return NOT_INITIALIZED;
    if (g && g->number == atoi(lost) && ++g->calls > atol(strchr(lost, ':') + 1)) return NOT_FOUND;
    return OK;
}

#define FUNCTION(name, gpu, ...) \
    Status name(__VA_ARGS__) { Status entered = enter(#name, gpu); if (entered) return entered;

Status amdsmi_init(uint64_t flags) {
    initialized = 1;
    count = atoi(setting("count", "2"));
    for (int i = 0; i < count; i++) gpus[i].number = i;
    return enter("amdsmi_init", NULL);
}

FUNCTION(amdsmi_shut_down, NULL, void) initialized = 0; return OK; }

typedef struct { uint32_t major, minor, release; const char *build; } Version;
FUNCTION(amdsmi_get_lib_version, NULL, Version *version)
    *version = (Version){26, 0, 2, "fake"};
    return OK;
}

/* One socket a GPU. */
FUNCTION(amdsmi_get_socket_handles, NULL, uint32_t *n, void **handles)
    for (int i = 0; handles && i < count; i++) handles[i] = &gpus[i];
    *n = count;
    return OK;
}

FUNCTION(amdsmi_get_processor_handles, NULL, Gpu socket, uint32_t *n, Gpu *handles)
    if (handles) *handles = socket;
    *n = 1;
    return OK;
}

static const char *serial(Gpu g) {
    static char made[32];
    snprintf(made, sizeof made, "a%05xfa4e%06x", g->number, g->number);
    return setting("uuid", made);
}

/* HIP counts the GPUs backwards. */
typedef struct { uint32_t drm_render, drm_card, hsa_id, hip_id; char hip_uuid[256]; } Enumeration;
FUNCTION(amdsmi_get_gpu_enumeration_info, g, Gpu g, Enumeration *info)
    *info = (Enumeration){.drm_render = 128 + g->number, .drm_card = g->number, .hsa_id = g->number + 1};
    info->hip_id = count - 1 - g->number;
    snprintf(info->hip_uuid, sizeof info->hip_uuid, "GPU-%s", serial(g));
    return OK;
}

typedef struct {
    char market_name[256]; uint32_t vendor_id; char vendor_name[256]; uint32_t subvendor_id; uint64_t device_id;
    uint32_t rev_id; char asic_serial[256]; uint32_t oam_id, compute_units; uint64_t graphics_version;
} Asic;
FUNCTION(amdsmi_get_gpu_asic_info, g, Gpu g, Asic *info)
    *info = (Asic){.market_name = "Fake Instinct 192GB", .vendor_id = 0x1002, .graphics_version = 0x942};
    snprintf(info->asic_serial, sizeof info->asic_serial, "%s", serial(g));
    return OK;
}

typedef struct { char version[256], date[256], name[256]; } Driver;
FUNCTION(amdsmi_get_gpu_driver_info, g, Gpu g, Driver *info)
    *info = (Driver){.version = "6.14.14", .name = "amdgpu"};
    return OK;
}

FUNCTION(amdsmi_get_gpu_memory_total, g, Gpu g, int kind, uint64_t *bytes)
    *bytes = 192ull << 30;
    return OK;
}

FUNCTION(amdsmi_get_gpu_memory_usage, g, Gpu g, int kind, uint64_t *bytes)
    *bytes = (2ull + g->number) << 30;
    return OK;
}

typedef struct { uint64_t socket; uint32_t current, average; uint64_t gfx, soc, memory; uint32_t limit; } Power;
FUNCTION(amdsmi_get_power_info, g, Gpu g, Power *info)
    int is_current = atoi(setting("current_power", "1"));
    *info = (Power){.current = is_current ? watts(g) : NO_32, .average = is_current ? NO_16 : watts(g), .limit = 750};
    info->socket = is_current ? info->current : info->average;
    return OK;
}

typedef struct { uint64_t cap, usual, dpm, least, most; } PowerCap; /* µW */
FUNCTION(amdsmi_get_power_cap_info, g, Gpu g, uint32_t sensor, PowerCap *info)
    *info = (PowerCap){.cap = 750000000, .usual = 750000000, .most = 750000000};
    return OK;
}

FUNCTION(amdsmi_get_energy_count, g, Gpu g, uint64_t *counter, float *resolution, uint64_t *time_ns)
    double t = now();
    double joules = IDLE_WATTS * t + (BUSY_WATTS - IDLE_WATTS) * busy_seconds(g, t);
    *counter = joules / (ENERGY_UNIT_MICROJOULES * 1e-6);
    *resolution = ENERGY_UNIT_MICROJOULES;
    *time_ns = t * 1e9;
    return OK;
}

/* The mean over the last whole period. */
typedef struct { uint32_t gfx, umc, mm; } Activity;
FUNCTION(amdsmi_get_gpu_activity, g, Gpu g, Activity *info)
    *info = (Activity){lround(100 * busy_share(g)), 7, NO_16};
    return OK;
}

typedef struct { uint32_t now, least, most; uint8_t locked, asleep; } Clock;
FUNCTION(amdsmi_get_clock_info, g, Gpu g, int kind, Clock *info)
    *info = (Clock){.now = kind == 0 ? 2100 : 1300, .most = kind == 0 ? 2100 : 1300};
    return OK;
}

FUNCTION(amdsmi_get_temp_metric, g, Gpu g, int sensor, int metric, int64_t *celsius)
    if (sensor == 0 && !atoi(setting("edge", "1"))) return NOT_SUPPORTED;
    *celsius = (sensor == 0 ? 40 : sensor == 1 ? 55 : 50) + g->number;
    return OK;
}

typedef struct {
    struct { uint16_t width; uint32_t speed, version, slot, most; uint64_t reserved[9]; } fixed;
    struct { uint16_t width; uint32_t speed, bandwidth; uint64_t replays, rest[4]; uint32_t last; } metric;
} Pcie;
FUNCTION(amdsmi_get_pcie_info, g, Gpu g, Pcie *info)
    *info = (Pcie){.fixed = {.width = 16, .speed = 32000}, .metric = {.width = 16, .speed = 32000, .replays = 3}};
    return OK;
}

typedef struct { uint64_t corrected, uncorrected, deferred; } Errors;
FUNCTION(amdsmi_get_gpu_total_ecc_count, g, Gpu g, Errors *info)
    *info = (Errors){.corrected = 5 + g->number};
    return OK;
}

typedef struct {
    char name[256]; uint32_t pid; uint64_t memory; uint64_t engines[2]; uint32_t more[12]; uint64_t kinds[3];
    uint32_t still_more[10]; char container[256]; uint32_t occupancy, reserved[11];
} Process;
FUNCTION(amdsmi_get_gpu_process_list, g, Gpu g, uint32_t *n, Process *list)
    for (int i = 0; i <= g->number; i++) list[i] = (Process){.name = "python3", .pid = 1000 + i};
    *n = g->number + 1;
    return OK;
}

typedef struct {
    uint16_t size; uint8_t format, content; uint16_t temperatures[6], activities[3], average_watts;
    uint64_t energy, clock; uint16_t clocks[14]; uint32_t throttled; uint16_t fan, lanes, speed; uint32_t busy[2];
    uint16_t hbm[4]; uint64_t firmware; uint16_t volts[3]; uint64_t independent; uint16_t watts, vcn[4];
    uint32_t locks; uint16_t xgmi[2]; uint64_t pcie[5], xgmi_read[8], xgmi_written[8];
    uint16_t gfx[8], soc[4], vclk[4], dclk[4], jpeg[32]; uint32_t naks[2];
    uint64_t accumulations, prochot, power, socket_heat, regulator_heat, memory_heat;
} Metrics;
FUNCTION(amdsmi_get_gpu_metrics_info, g, Gpu g, Metrics *info)
    double t = now();
    memset(info, 0xFF, sizeof *info);
    info->accumulations = t * ACCUMULATIONS_PER_SECOND;
    info->power = busy_seconds(g, t) * ACCUMULATIONS_PER_SECOND / 4; /* held back for a quarter of its busy time */
    info->prochot = info->socket_heat = info->regulator_heat = info->memory_heat = 0;
    return OK;
}
