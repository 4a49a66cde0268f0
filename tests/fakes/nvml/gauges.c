/* What the GPUs are doing: every figure follows from the load, as late and as coarse as hardware tells it. */
#include "fake.h"

typedef union { double d; Uint u; Ulong l; } Value;
typedef struct { Uint field, scope; long long time_us, latency_us; Uint type; Return result; Value value; } Field;
typedef struct { Ulong time_us; Value value; } Sample;
typedef struct { Uint gpu, memory; } Utilization;
typedef struct { Ulong total, free, used; } Memory;
typedef struct { Uint version; Ulong total, reserved, free, used; } Memory2;
typedef struct { Uint version, sensor; int celsius; } Temperature;
typedef struct { double time, busy; int is_part, is_garbage; } *GpmSample;
typedef struct { Uint id; Return result; double value; char *names[3]; } GpmMetric;
typedef struct { Uint version, n; GpmSample first, second; GpmMetric metrics[]; } GpmMetrics;
typedef struct { Uint version, supported; } GpmSupport;
typedef struct { Gpu gpu; Ulong type, data; Uint gpu_instance, compute_instance; } Event;
typedef struct { int n, told[MAX_GPUS]; Gpu gpus[MAX_GPUS]; } *EventSet;

#define GIB (1ull << 30)
#define MIB 1048576.0
#define PART(g) if ((g)->parent || number(g, "mig", 0) > 0) return NOT_SUPPORTED;

/* To the nearest: cut off, a counter that stands still would fall by one now and then. */
static Ulong whole(double value) { return (Ulong)llround(value); }

static double percent(Gpu g, double end) {
    if (g->garbage) return 250;
    return 100 * (busy_seconds(g, end) - busy_seconds(g, end - g->window)) / g->window;
}
FUNCTION(nvmlDeviceGetUtilizationRates, g, Gpu g, Utilization *rates)
    PART(g)
    rates->gpu = lround(percent(g, stepped(now(CLOCK_MONOTONIC), g->window)));
    rates->memory = rates->gpu / 2;
    return OK; }

/* The driver's buffer of the last 100 windows of utilisation (type 1). Its stamps are of the clock that is set. */
FUNCTION(nvmlDeviceGetSamples, g, Gpu g, Uint type, Ulong last_us, Uint *value_type, Uint *n, Sample *out)
    PART(g)
    if (type != 1 || !number(g, "samples", 1)) return type == 1 ? NOT_FOUND : NOT_SUPPORTED;
    const char *clock = text(g, "samples_clock", "boottime");
    int is_real = !strcmp(clock, "realtime"), is_boot = !strcmp(clock, "boottime"), is_unknown = !strcmp(clock, "unknown");
    double ahead = now(is_real ? CLOCK_REALTIME : is_boot ? CLOCK_BOOTTIME : CLOCK_MONOTONIC) - now(CLOCK_MONOTONIC);
    double end = stepped(now(CLOCK_MONOTONIC), g->window);
    if (is_unknown) ahead = 1e6;
    if (is_due()) ahead -= number(g, "samples_step_back", 0);
    Uint room = *n, found = 0;
    *value_type = 1;
    *n = 100;
    if (!out) return OK;
    for (int i = 99; i >= 0; i--) {
        double time = end - i * g->window;
        Ulong us = (time + ahead) * 1e6;
        if (us <= last_us || found >= room) continue;
        out[found].time_us = us;
        out[found++].value.u = lround(percent(g, time));
    }
    *n = found;
    return found ? OK : NOT_FOUND; }

static double total(Gpu g) { return g->parent ? g->mib * MIB : number(g, "memory_gib", 80) * GIB; }
static double used(Gpu g) { return g->parent ? g->used_mib * MIB : number(g, "used_gib", 2 + g->number) * GIB; }
static double reserved(Gpu g) { return number(g, "reserved_gib", 1) * GIB; }
FUNCTION(nvmlDeviceGetMemoryInfo, g, Gpu g, Memory *memory)
    memory->total = total(g);
    memory->used = used(g) + reserved(g);
    memory->free = memory->total - memory->used;
    return OK; }
FUNCTION(nvmlDeviceGetMemoryInfo_v2, g, Gpu g, Memory2 *memory)
    if (memory->version != 0x2000028) return VERSION_MISMATCH;
    memory->total = total(g);
    memory->reserved = reserved(g);
    memory->used = is_due() && number(g, "all_bits", 0) ? ~0ull : used(g);
    memory->free = memory->total - memory->reserved - memory->used;
    return OK; }

FUNCTION(nvmlDeviceGetPowerUsage, g, Gpu g, Uint *milliwatts)
    *milliwatts = g->garbage ? 0xffffffffu : 1000 * mean_watts(g, g->power_is_average ? 1 : g->refresh); return OK; }
static Ulong millijoules(Gpu g) {
    double t = stepped(now(CLOCK_MONOTONIC), g->refresh);
    Ulong mj = whole(1000 * (joules(g, t) - (g->reset_at && t > g->reset_at ? joules(g, g->reset_at) : 0)));
    Ulong wrap = number(g, "energy_wrap_mj", 0);
    return wrap ? mj % wrap : mj;
}
FUNCTION(nvmlDeviceGetTotalEnergyConsumption, g, Gpu g, Ulong *mj)
    *mj = millijoules(g); return g->has_energy ? OK : NOT_SUPPORTED; }
FUNCTION(nvmlDeviceGetTemperature, g, Gpu g, Uint sensor, Uint *celsius)
    *celsius = is_due() && number(g, "all_bits", 0) ? ~0u : number(g, "celsius", 40 + g->number); return sensor ? INVALID_ARGUMENT : OK; }
FUNCTION(nvmlDeviceGetTemperatureV, g, Gpu g, Temperature *temperature)
    if (temperature->version != 0x100000C) return VERSION_MISMATCH;
    temperature->celsius = is_due() && number(g, "all_bits", 0) ? -1 : number(g, "celsius", 40 + g->number);
    return OK; }

static Ulong reasons(Gpu g) {
    if (!is_busy(g)) return number(g, "idle_reasons", 1);
    return (g->throttle_power > 0 ? 0x4 : 0) | (g->throttle_thermal > 0 ? 0x20 : 0);
}
FUNCTION(nvmlDeviceGetCurrentClocksEventReasons, g, Gpu g, Ulong *bits) *bits = reasons(g); return OK; }
FUNCTION(nvmlDeviceGetCurrentClocksThrottleReasons, g, Gpu g, Ulong *bits) *bits = reasons(g); return OK; }

static Ulong counted(Gpu g, double rate) {
    Ulong value = whole(rate * busy_seconds(g, now(CLOCK_MONOTONIC)));
    return g->counter_wrap ? value % g->counter_wrap : value;
}
static Return read_field(Gpu g, Field *f) {
    double t = stepped(now(CLOCK_MONOTONIC), g->refresh);
    int linked = g->n_links > 0, five = g->links_are_five;
    if (f->field == 199 || f->field == 200 || f->field >= 251) abort(); /* their meaning depends on the driver's release */
    if (g->field_errors[f->field]) return g->field_errors[f->field];
    f->type = 3;
    switch (f->field) {
    case 74: f->value.l = whole(1e6 * g->throttle_power * busy_seconds(g, t)) * 1000; return OK;
    case 75: f->value.l = whole(1e6 * g->throttle_thermal * busy_seconds(g, t)) * 1000; return OK;
    case 76: case 77: case 79: f->value.l = 0; return OK;
    case 82: f->type = 1; f->value.u = number(g, "memory_celsius", 50 + g->number); return f->value.u ? OK : NOT_SUPPORTED;
    case 83: f->value.l = millijoules(g); return g->has_energy ? OK : NOT_SUPPORTED;
    case 94: f->type = 1; f->value.u = counted(g, number(g, "replays_per_second", 0)); return OK;
    case 138: f->value.l = counted(g, g->nvlink_tx / 1024); return linked && !five ? OK : NOT_SUPPORTED;
    case 139: f->value.l = counted(g, g->nvlink_rx / 1024); return linked && !five ? OK : NOT_SUPPORTED;
    case 185: f->type = 1; f->value.u = 1000 * mean_watts(g, 1); return g->power_is_average ? OK : NOT_SUPPORTED;
    case 186: f->type = 1; f->value.u = g->garbage ? 0xffffffffu : 1000 * mean_watts(g, g->refresh); return OK;
    case 197: f->value.l = counted(g, g->pcie_tx); return number(g, "pcie_counters", 1) ? OK : NOT_SUPPORTED;
    case 198: f->value.l = counted(g, g->pcie_rx); return number(g, "pcie_counters", 1) ? OK : NOT_SUPPORTED;
    case 202: case 204: /* of one link */
        f->value.l = counted(g, (f->field == 202 ? g->nvlink_tx : g->nvlink_rx) / fmax(1, g->n_links));
        return linked && five && f->scope < (Uint)g->n_links ? OK : NOT_SUPPORTED;
    default: return NOT_SUPPORTED;
    }
}
FUNCTION(nvmlDeviceGetFieldValues, g, Gpu g, int n, Field *fields)
    if (g->parent) return NOT_SUPPORTED;
    int odd = is_due() ? (int)number(g, "odd_fields", 0) : 0;
    for (int i = 0; i < n; i++) {
        fields[i].result = read_field(g, &fields[i]);
        if (odd == 1) fields[i].type = 99;                                 /* a type that nobody knows */
        if (odd == 2) { fields[i].type = 0; fields[i].value.d = NAN; }     /* no number */
        if (odd == 3) { fields[i].type = 4; fields[i].value.l = -5; }      /* a negative one */
        if (odd == 4) { fields[i].type = 3; fields[i].value.l = ~0ull; }   /* all bits set */
        if (odd == 5) fields[i].value.l = 0;                               /* 0 and success */
    }
    return OK; }

FUNCTION(nvmlDeviceGetPcieThroughput, g, Gpu g, Uint way, Uint *kilobytes)
    (void)way; (void)kilobytes; abort(); } /* it takes 20 ms: nobody may call it while something is measured */
FUNCTION(nvmlDeviceGetPcieReplayCounter, g, Gpu g, Uint *n) *n = counted(g, number(g, "replays_per_second", 0)); return OK; }
FUNCTION(nvmlDeviceGetTotalEccErrors, g, Gpu g, Uint kind, Uint counter, Ulong *n)
    (void)counter;
    *n = counted(g, number(g, kind ? "uncorrected_per_second" : "corrected_per_second", 0)) + number(g, kind ? "uncorrected" : "corrected", 0);
    return number(g, "ecc", 1) > 0 ? OK : NOT_SUPPORTED; }
FUNCTION(nvmlDeviceGetRemappedRows, g, Gpu g, Uint *corrected, Uint *uncorrected, Uint *pending, Uint *failed)
    *corrected = number(g, "remapped", 0) + counted(g, number(g, "remapped_per_second", 0)); *uncorrected = 0; *pending = number(g, "remap_pending", 0); *failed = 0;
    return g->architecture >= 7 ? OK : NOT_SUPPORTED; }

FUNCTION(nvmlGpmQueryDeviceSupport, g, Gpu g, GpmSupport *support)
    support->supported = number(g, "gpm", g->architecture >= 9); return OK; }
FUNCTION(nvmlGpmSampleAlloc, NULL, GpmSample *sample) *sample = calloc(1, sizeof **sample); return OK; }
FUNCTION(nvmlGpmSampleFree, NULL, GpmSample sample) free(sample); return OK; }
static Return take(Gpu g, GpmSample sample) {
    double time = now(CLOCK_MONOTONIC);
    if (!number(g, "gpm", g->architecture >= 9)) return NOT_SUPPORTED;
    *sample = (typeof(*sample)){time, busy_seconds(g, time), g->parent != NULL, g->garbage};
    return OK;
}
FUNCTION(nvmlGpmSampleGet, g, Gpu g, GpmSample sample) return g->parent ? INVALID_ARGUMENT : take(g, sample); }
FUNCTION(nvmlGpmMigSampleGet, g, Gpu g, Uint gpu_instance, GpmSample sample)
    for (int i = 0; i < n_instances; i++)
        if (instances[i].parent == g && instances[i].gpu_instance == (int)gpu_instance) return take(&instances[i], sample);
    return INVALID_ARGUMENT; }
FUNCTION(nvmlGpmMetricsGet, NULL, GpmMetrics *get)
    double busy = (get->second->busy - get->first->busy) / (get->second->time - get->first->time);
    if (get->second->time - get->first->time < 0.001) return INVALID_ARGUMENT;
    for (Uint i = 0; i < get->n; i++) {
        GpmMetric *m = &get->metrics[i];
        m->result = m->id >= 20 && get->second->is_part ? NOT_SUPPORTED : OK; /* links are the whole GPU's */
        switch (m->id) {
        case 2: m->value = 90 * busy; break;          /* SM active */
        case 3: m->value = 60 * busy; break;          /* occupancy */
        case 5: m->value = 70 * busy; break;          /* any tensor */
        case 10: m->value = 50 * busy; break;         /* DRAM bandwidth */
        case 20: m->value = 1e9 / MIB * busy; break;  /* PCIe, MiB/s */
        case 21: m->value = 3e9 / MIB * busy; break;
        case 60: case 61: m->value = 100e9 / MIB * busy; break; /* NVLink, MiB/s */
        default: m->result = NOT_SUPPORTED;
        }
        if (get->second->is_garbage) m->value = NAN;
    }
    return OK; }

FUNCTION(nvmlEventSetCreate, NULL, EventSet *set) *set = calloc(1, sizeof **set); return OK; }
FUNCTION(nvmlEventSetFree, NULL, EventSet set) free(set); return OK; }
FUNCTION(nvmlDeviceRegisterEvents, g, Gpu g, Ulong types, EventSet set)
    (void)types; set->gpus[set->n++] = g; return number(g, "events", 1) ? OK : NOT_SUPPORTED; }
FUNCTION(nvmlEventSetWait_v2, NULL, EventSet set, Event *event, Uint timeout_ms)
    double end = now(CLOCK_MONOTONIC) + timeout_ms / 1e3;
    int expected = 0;
    for (int i = 0; i < set->n; i++) expected |= number(set->gpus[i], "xid", 0) != 0;
    if (!expected) usleep(timeout_ms * 1000);
    for (; now(CLOCK_MONOTONIC) < end; usleep(20000))
        for (int i = 0; i < set->n; i++)
            if (number(set->gpus[i], "xid", 0) && !set->told[i] && now(CLOCK_MONOTONIC) >= number(set->gpus[i], "xid_at", 0)) {
                set->told[i] = 1;
                Uint part = number(set->gpus[i], "xid_instance", ~0u);
                *event = (Event){set->gpus[i], 8, number(set->gpus[i], "xid", 0), part, ~0u};
                return OK;
            }
    return TIMEOUT; }
