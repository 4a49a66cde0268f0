/* A libnvidia-ml.so.1 whose GPUs follow a load that is known: __init__.py beside this file says the same in Python.
 *
 * Each GPU is busy for the first part of every 2 s of CLOCK_MONOTONIC, and idle for the rest. What NVML tells lags
 * behind as it does on hardware: utilisation is the mean of a window that ended a while ago, power and the energy
 * counter move in steps. Set by environment:
 *   FAKE_NVML_COUNT=8             how many GPUs
 *   FAKE_NVML_REVERSED=1          NVML counts them the other way round; their UUIDs and loads stay together
 *   FAKE_NVML_NAME=bytes          what they are called
 *   FAKE_NVML_CAPABILITY=8.6      the compute capability
 *   FAKE_NVML_MIG=1               MIG is on
 *   FAKE_NVML_FAIL=symbol=3@20,…  a symbol gives this error from its 21st call on
 *   FAKE_NVML_LOST=1@20           every call on GPU 1 gives "GPU is lost" from its 21st call on
 *   FAKE_NVML_HANG=symbol@20      the 21st call of a symbol does not return
 * Built with -DOLD_DRIVER it lacks what drivers before R510 lacked.
 */
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
typedef struct gpu { int number; long calls; } *Gpu;
typedef union { double d; Uint u; Ulong l; } Value;
typedef struct { Uint field, scope; long long time_us, latency_us; Uint type; Return result; Value value; } Field;
typedef struct { Uint gpu, memory; } Utilization;
typedef struct { Ulong total, free, used; } Memory;
typedef struct { Uint version; Ulong total, reserved, free, used; } Memory2;
typedef struct { Uint version, sensor; int celsius; } Temperature;
typedef struct { char legacy[16]; Uint domain, bus, device, device_id, subsystem_id; char id[32]; } Pci;
enum { OK, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 6, GPU_LOST = 15, VERSION_MISMATCH = 25 };

#define MAX_GPUS 16
#define LOAD_SECONDS 2.0
#define WINDOW_SECONDS (1.0 / 6)
#define REFRESH_SECONDS 0.02
#define IDLE_WATTS 80.0
#define BUSY_WATTS 500.0

static struct gpu gpus[MAX_GPUS];
static int initialized, count = 1, reversed;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double stepped(double t, double step) { return step * floor(t / step); }

static double busy_seconds(Gpu g, double t) { /* since 0 */
    double busy = LOAD_SECONDS * (0.1 + 0.09 * (g->number % 8)), periods = floor(t / LOAD_SECONDS);
    return periods * busy + fmin(t - periods * LOAD_SECONDS, busy);
}

static double joules(Gpu g, double t) { return IDLE_WATTS * t + (BUSY_WATTS - IDLE_WATTS) * busy_seconds(g, t); }

static double mean_watts(Gpu g, double over_seconds) {
    double t = stepped(now(), REFRESH_SECONDS);
    return (joules(g, t) - joules(g, t - over_seconds)) / over_seconds;
}

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

/* "symbol=3@20,…" or "symbol@20": is this call of the symbol past the number behind @? */
static int planned(const char *plan, const char *symbol, long call, int *code) {
    const char *entry = strstr(plan, symbol);
    long after = 0;
    if (!entry) return 0;
    entry += strlen(symbol);
    if (*entry == '=') *code = (int)strtol(entry + 1, (char **)&entry, 10);
    else if (*entry != '@' && *entry != ',' && *entry) return 0; /* a longer symbol */
    if (*entry == '@') after = atol(entry + 1);
    return call > after;
}

static Return enter(const char *symbol, long *calls, Gpu g) {
    int code = OK, lost = -1;
    long after = 0;
    if (!initialized) return UNINITIALIZED;
    ++*calls;
    while (planned(setting("FAKE_NVML_HANG", ""), symbol, *calls, &code)) pause();
    if (g && sscanf(setting("FAKE_NVML_LOST", ""), "%d@%ld", &lost, &after) == 2 && g->number == lost
        && ++g->calls > after) return GPU_LOST;
    code = OK;
    return planned(setting("FAKE_NVML_FAIL", ""), symbol, *calls, &code) ? code : OK;
}

#define EXPORT __attribute__((visibility("default")))
#define FUNCTION(name, gpu, ...) \
    EXPORT Return name(__VA_ARGS__) { static long calls; Return entered = enter(#name, &calls, gpu); if (entered) return entered;

EXPORT Return nvmlInitWithFlags(Uint flags) {
    long calls = 0;
    (void)flags;
    count = atoi(setting("FAKE_NVML_COUNT", "1"));
    reversed = atoi(setting("FAKE_NVML_REVERSED", "0"));
    for (int i = 0; i < MAX_GPUS; i++) gpus[i].number = i;
    initialized++;
    return enter("nvmlInit", &calls, NULL);
}
FUNCTION(nvmlShutdown, NULL, void) initialized--; return OK; }
EXPORT const char *nvmlErrorString(Return code) { (void)code; return "an error of the fake"; }
FUNCTION(nvmlSystemGetDriverVersion, NULL, char *text, Uint size) snprintf(text, size, "570.00.00"); return OK; }
FUNCTION(nvmlSystemGetNVMLVersion, NULL, char *text, Uint size) snprintf(text, size, "12.570.00.00"); return OK; }
FUNCTION(nvmlSystemGetCudaDriverVersion_v2, NULL, int *version) *version = 12080; return OK; }
FUNCTION(nvmlDeviceGetCount_v2, NULL, Uint *n) *n = count; return OK; }

FUNCTION(nvmlDeviceGetHandleByIndex_v2, NULL, Uint index, Gpu *g)
    if (index >= (Uint)count) return INVALID_ARGUMENT;
    *g = &gpus[reversed ? count - 1 - (int)index : (int)index];
    return OK; }

static void write_uuid(Gpu g, char *text, Uint size) {
    snprintf(text, size, "GPU-%08x-fa4e-4000-8000-%012d", 0xa0 + g->number, g->number);
}
FUNCTION(nvmlDeviceGetUUID, g, Gpu g, char *text, Uint size) write_uuid(g, text, size); return OK; }
FUNCTION(nvmlDeviceGetHandleByUUID, NULL, const char *uuid, Gpu *g)
    char text[96];
    for (int i = 0; i < count; i++) {
        write_uuid(&gpus[i], text, sizeof text);
        if (!strcmp(text, uuid)) { *g = &gpus[i]; return OK; }
    }
    return NOT_FOUND; }

FUNCTION(nvmlDeviceGetName, g, Gpu g, char *text, Uint size)
    snprintf(text, size, "%s", setting("FAKE_NVML_NAME", "Fake GPU 80GB")); return OK; }
FUNCTION(nvmlDeviceGetPciInfo_v3, g, Gpu g, Pci *pci)
    int place = reversed ? count - 1 - g->number : g->number;
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10 + place;
    snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", pci->bus);
    return OK; }
FUNCTION(nvmlDeviceGetCudaComputeCapability, g, Gpu g, int *major, int *minor)
    sscanf(setting("FAKE_NVML_CAPABILITY", "9.0"), "%d.%d", major, minor); return OK; }
FUNCTION(nvmlDeviceGetMigMode, g, Gpu g, Uint *current, Uint *pending)
    *current = *pending = atoi(setting("FAKE_NVML_MIG", "0")); return OK; }

FUNCTION(nvmlDeviceGetUtilizationRates, g, Gpu g, Utilization *rates)
    double end = stepped(now(), WINDOW_SECONDS);
    rates->gpu = lround(100 * (busy_seconds(g, end) - busy_seconds(g, end - WINDOW_SECONDS)) / WINDOW_SECONDS);
    rates->memory = rates->gpu / 2;
    return OK; }
FUNCTION(nvmlDeviceGetMemoryInfo, g, Gpu g, Memory *memory)
    memory->total = 80ull << 30;
    memory->used = (3ull + g->number) << 30; /* with the 1 GiB that the driver reserves */
    memory->free = memory->total - memory->used;
    return OK; }
FUNCTION(nvmlDeviceGetPowerUsage, g, Gpu g, Uint *milliwatts) *milliwatts = 1000 * mean_watts(g, 1); return OK; }
FUNCTION(nvmlDeviceGetTotalEnergyConsumption, g, Gpu g, Ulong *millijoules)
    *millijoules = 1000 * joules(g, stepped(now(), REFRESH_SECONDS)); return OK; }
FUNCTION(nvmlDeviceGetClockInfo, g, Gpu g, Uint clock, Uint *mhz) *mhz = clock == 1 ? 1980 - 10 * g->number : 2619; return OK; }
FUNCTION(nvmlDeviceGetTemperature, g, Gpu g, Uint sensor, Uint *celsius)
    if (sensor) return INVALID_ARGUMENT;
    *celsius = 40 + g->number;
    return OK; }

#ifndef OLD_DRIVER
FUNCTION(nvmlDeviceGetMemoryInfo_v2, g, Gpu g, Memory2 *memory)
    if (memory->version != 0x2000028) return VERSION_MISMATCH;
    memory->total = 80ull << 30;
    memory->reserved = 1ull << 30;
    memory->used = (2ull + g->number) << 30;
    memory->free = memory->total - memory->reserved - memory->used;
    return OK; }
FUNCTION(nvmlDeviceGetTemperatureV, g, Gpu g, Temperature *temperature)
    if (temperature->version != 0x100000C) return VERSION_MISMATCH;
    temperature->celsius = 40 + g->number;
    return OK; }
FUNCTION(nvmlDeviceGetFieldValues, g, Gpu g, int n, Field *fields)
    for (int i = 0; i < n; i++) {
        fields[i].result = fields[i].field == 186 ? OK : NOT_SUPPORTED;
        fields[i].type = 1;
        fields[i].value.u = 1000 * mean_watts(g, REFRESH_SECONDS);
    }
    return OK; }
#endif
