/* The settings, the load that every figure follows, and what befalls a call. */
#include "fake.h"

struct gpu gpus[MAX_GPUS], instances[MAX_GPUS * 8];
int count, n_instances, reversed, lost_number = -1;
long lost_after;
static struct { char *key, *value; } settings[4096];
static int n_settings, initialized;

/* Faults wait for the file that `trigger` names, where one is set; once it was there, they befall every call. */
int is_due(void) {
    static int was_there;
    static const char *path;
    if (!path) path = text(NULL, "trigger", "");
    if (!*path) return 1;
    return was_there || (was_there = !access(path, F_OK));
}

double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

double stepped(double time, double step) { return step > 0 ? step * floor(time / step) : time; }

/* Busy in the intervals of a schedule; else for the first part of every period. */
double busy_seconds(Gpu g, double t) {
    double busy = 0;
    if (g->intervals) {
        for (long i = 0; i + 1 < g->n_intervals; i += 2)
            busy += fmax(0, fmin(t, g->intervals[i + 1]) - g->intervals[i]);
        return busy;
    }
    double periods = floor(t / g->load_period), each = g->load_period * g->busy_share;
    return periods * each + fmin(t - periods * g->load_period, each);
}

double joules(Gpu g, double t) { return g->idle_watts * t + (g->busy_watts - g->idle_watts) * busy_seconds(g, t); }

double mean_watts(Gpu g, double over_seconds) {
    double t = stepped(now(CLOCK_MONOTONIC), g->refresh);
    return (joules(g, t) - joules(g, t - over_seconds)) / over_seconds;
}

int is_busy(Gpu g) {
    double t = now(CLOCK_MONOTONIC);
    return busy_seconds(g, t) - busy_seconds(g, t - 1e-3) > 0;
}

static const char *setting(const char *key, const char *otherwise) {
    for (int i = n_settings - 1; i >= 0; i--)
        if (!strcmp(settings[i].key, key)) return settings[i].value;
    return otherwise;
}

const char *text(Gpu g, const char *key, const char *otherwise) {
    char name[160];
    if (!g) return setting(key, otherwise);
    snprintf(name, sizeof name, "gpus.%d.%s", g->number, key);
    const char *own = setting(name, NULL);
    snprintf(name, sizeof name, "gpu.%s", key);
    return own ? own : setting(name, otherwise);
}

/* Looked up once for each GPU and key, so that the fake driver takes next to no time. */
double number(Gpu g, const char *key, double otherwise) {
    static __thread struct { Gpu g; char key[48]; double value; int is_set; } cache[8192];
    unsigned long hash = 5381 + (unsigned long)g / sizeof(struct gpu);
    for (const char *c = key; *c; c++) hash = hash * 33 + *c;
    int slot = hash % 8192;
    if (cache[slot].g != g || strcmp(cache[slot].key, key)) {
        const char *value = text(g, key, NULL);
        cache[slot].g = g;
        snprintf(cache[slot].key, sizeof cache[slot].key, "%s", key);
        cache[slot].is_set = value != NULL;
        cache[slot].value = value ? atof(value) : 0;
    }
    return cache[slot].is_set ? cache[slot].value : otherwise;
}

static void load_gpu(Gpu g) {
    char prefix[32];
    g->load_period = number(g, "load_period", 2);
    g->busy_share = number(g, "busy_share", 0.1 + 0.09 * (g->number % 8));
    g->idle_watts = number(g, "idle_watts", 80);
    g->busy_watts = number(g, "busy_watts", 500);
    g->window = number(g, "window", 1.0 / 6);
    g->refresh = number(g, "refresh", 0.02);
    g->reset_at = number(g, "reset_at", 0);
    g->pcie_tx = number(g, "pcie_tx", 1e9);
    g->pcie_rx = number(g, "pcie_rx", 3e9);
    g->nvlink_tx = number(g, "nvlink_tx", 100e9);
    g->nvlink_rx = number(g, "nvlink_rx", 100e9);
    g->throttle_power = number(g, "throttle_power", 0.25);
    g->throttle_thermal = number(g, "throttle_thermal", 0);
    g->garbage = number(g, "garbage", 0);
    g->architecture = number(g, "architecture", 9);
    g->power_is_average = atof(text(g, "capability", "9.0")) > 8.01;
    g->n_links = number(g, "nvlinks", 0);
    g->links_are_five = number(g, "nvlink_version", 4) >= 5;
    g->has_energy = number(g, "energy", g->architecture >= 5);
    g->counter_wrap = number(g, "counter_wrap", 0);
    snprintf(prefix, sizeof prefix, "gpus.%d.errors.", g->number);
    for (int i = 0; i < n_settings; i++)
        g->has_errors |= !strncmp(settings[i].key, "gpu.errors.", 11) || !strncmp(settings[i].key, prefix, strlen(prefix));
    for (int field = 0; field < 256; field++) {
        snprintf(prefix, sizeof prefix, "field_errors.%d", field);
        g->field_errors[field] = number(g, prefix, OK);
    }
    const char *schedule = text(g, "schedule", NULL);
    if (schedule) {
        g->intervals = calloc(strlen(schedule) + 2, sizeof(double));
        for (char *at = (char *)schedule; *at;) {
            g->intervals[g->n_intervals++] = strtod(at, &at);
            if (*at) at++;
        }
    }
    /* "PROFILE GI CI MIB MIB_IN_USE BUSY_SHARE" for each instance, between commas; the share is the GPU's if not there */
    for (const char *at = text(g, "mig_instances", ""); *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] != 0)) {
        Gpu part = &instances[n_instances++];
        *part = *g;
        part->parent = g;
        sscanf(at, "%*s %d %d %lf %lf %lf", &part->gpu_instance, &part->compute_instance, &part->mib, &part->used_mib,
               &part->busy_share);
    }
}

void load_settings(void) {
    const char *path = getenv("FAKE_NVML_SETTINGS");
    char line[8192];
    FILE *file = path && !initialized ? fopen(path, "r") : NULL;
    while (file && fgets(line, sizeof line, file) && n_settings < 4096) {
        line[strcspn(line, "\n")] = 0;
        char *equals = strchr(line, '=');
        if (!equals) continue;
        *equals = 0;
        settings[n_settings].key = strdup(line);
        settings[n_settings++].value = strdup(equals + 1);
    }
    if (file) fclose(file);
    count = number(NULL, "count", 1);
    reversed = number(NULL, "reversed", 0);
    sscanf(text(NULL, "lost", ""), "%d@%ld", &lost_number, &lost_after);
    for (int i = 0; i < MAX_GPUS && !initialized; i++) {
        gpus[i].number = i;
        if (i < count) load_gpu(&gpus[i]);
    }
    initialized++;
}

/* "symbol=3@20,…": the number behind = into `value`, the one behind @ into `after`; whether the symbol is named. */
static int planned(const char *plan, const char *symbol, long *value, long *after) {
    for (const char *at = plan; (at = strstr(at, symbol)); at += strlen(symbol)) {
        const char *behind = at + strlen(symbol);
        if (*behind && !strchr("=@,", *behind)) continue; /* a longer symbol */
        *value = *after = 0;
        if (*behind == '=') *value = strtol(behind + 1, (char **)&behind, 10);
        if (*behind == '@') *after = atol(behind + 1);
        return 1;
    }
    return 0;
}

static void foresee(const char *symbol, Fate *fate) {
    long value = 0, after = 0;
    fate->known = 1;
    fate->fail_after = planned(setting("fail", ""), symbol, &value, &after) ? after : -1;
    fate->fail_code = (int)value;
    fate->hang_after = planned(setting("hang", ""), symbol, &value, &after) ? after : -1;
    fate->abort_after = planned(setting("abort", ""), symbol, &value, &after) ? after : -1;
    fate->flaky_every = planned(setting("flaky", ""), symbol, &value, &after) ? after : 0;
    fate->flaky_code = (int)value;
    fate->slow_us = planned(setting("slow", ""), symbol, &value, &after) ? value : (long)number(NULL, "slow_all", 0);
}

Return enter(const char *symbol, Fate *fate, Gpu g) {
    if (!initialized) return UNINITIALIZED;
    if (!fate->known) foresee(symbol, fate);
    if (!is_due()) return OK;
    ++fate->calls;
    if (fate->slow_us) {
        struct timespec pause = {fate->slow_us / 1000000, fate->slow_us % 1000000 * 1000};
        nanosleep(&pause, NULL);
    }
    while (fate->hang_after >= 0 && fate->calls > fate->hang_after) pause();
    if (fate->abort_after >= 0 && fate->calls > fate->abort_after) abort();
    if (fate->flaky_every && fate->calls % fate->flaky_every == 0) return fate->flaky_code;
    if (g && g->number == lost_number && ++g->calls > lost_after) return GPU_LOST;
    if (g && g->has_errors) {
        char key[160];
        snprintf(key, sizeof key, "errors.%s", symbol);
        int code = number(g, key, OK);
        if (code) return code;
    }
    return fate->fail_after >= 0 && fate->calls > fate->fail_after ? fate->fail_code : OK;
}
