/* What there is: the system, its GPUs and MIG instances, what they are set to, and how they are joined. */
#include "fake.h"

typedef struct { char legacy[16]; Uint domain, bus, device, device_id, subsystem_id; char id[32]; } Pci;
typedef struct { Uint version; unsigned char cluster[16]; Return status; Uint clique, state, health; } Fabric;
typedef struct { Uint pid; Ulong memory; Uint gpu_instance, compute_instance; } Process;

EXPORT Return nvmlInitWithFlags(Uint flags) {
    static Fate fate;
    (void)flags;
    load_settings();
    return enter("nvmlInit", &fate, NULL);
}
FUNCTION(nvmlShutdown, NULL, void) return OK; }
EXPORT const char *nvmlErrorString(Return code) { (void)code; return "an error of the fake"; }

static Return copy(const char *from, char *to, Uint size) { snprintf(to, size, "%s", from); return OK; }
FUNCTION(nvmlSystemGetDriverVersion, NULL, char *to, Uint size) return copy(text(NULL, "driver", "570.00.00"), to, size); }
FUNCTION(nvmlSystemGetNVMLVersion, NULL, char *to, Uint size) return copy(text(NULL, "nvml", "12.570.00.00"), to, size); }
FUNCTION(nvmlSystemGetCudaDriverVersion_v2, NULL, int *version) *version = number(NULL, "cuda", 12080); return OK; }
FUNCTION(nvmlDeviceGetCount_v2, NULL, Uint *n) *n = count + number(NULL, "phantoms", 0); return OK; }

FUNCTION(nvmlDeviceGetHandleByIndex_v2, NULL, Uint index, Gpu *g)
    if (index >= (Uint)count) return INVALID_ARGUMENT;
    *g = &gpus[reversed ? count - 1 - (int)index : (int)index];
    return number(*g, "errors.nvmlDeviceGetHandleByIndex_v2", OK); }

static void write_uuid(Gpu g, char *to, Uint size) {
    if (g->parent)
        snprintf(to, size, "MIG-%08x-fa4e-4000-%04d-%012d", 0xa0 + g->number, 8000 + g->gpu_instance * 10 + g->compute_instance, g->number);
    else {
        int n = number(g, "uuid_of_all", 0) ? 0 : g->number; /* a fault: all GPUs have that of the first */
        snprintf(to, size, "GPU-%08x-fa4e-4000-8000-%012d", 0xa0 + n, n);
    }
}
FUNCTION(nvmlDeviceGetUUID, g, Gpu g, char *to, Uint size) write_uuid(g, to, size); return OK; }
FUNCTION(nvmlDeviceGetHandleByUUID, NULL, const char *uuid, Gpu *g)
    char own[96];
    for (int i = 0; i < count + n_instances; i++) {
        *g = i < count ? &gpus[i] : &instances[i - count];
        write_uuid(*g, own, sizeof own);
        if (!strcmp(own, uuid)) return number(*g, "errors.nvmlDeviceGetHandleByUUID", OK);
    }
    return NOT_FOUND; }
FUNCTION(nvmlDeviceGetName, g, Gpu g, char *to, Uint size)
    const char *name = text(g, "name", "Fake GPU 80GB"), *profile = text(g, "mig_instances", "");
    for (int i = 0; g->parent && &instances[i] != g; i++)
        if (instances[i].parent == g->parent) profile += strcspn(profile, ",") + 1;
    if (g->parent) snprintf(to, size, "%s MIG %.*s", name, (int)strcspn(profile, " "), profile);
    else copy(name, to, size);
    return OK; }
FUNCTION(nvmlDeviceGetIndex, g, Gpu g, Uint *index) *index = reversed ? count - 1 - g->number : g->number; return OK; }
FUNCTION(nvmlDeviceGetMinorNumber, g, Gpu g, Uint *minor) *minor = g->number; return OK; }
FUNCTION(nvmlDeviceGetArchitecture, g, Gpu g, Uint *architecture) *architecture = g->architecture; return OK; }
FUNCTION(nvmlDeviceGetCudaComputeCapability, g, Gpu g, int *major, int *minor)
    sscanf(text(g, "capability", "9.0"), "%d.%d", major, minor); return OK; }

static void write_pci(Gpu g, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = number(g, "bus", 0x10 + (reversed ? count - 1 - g->number : g->number));
    snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", pci->bus);
}
FUNCTION(nvmlDeviceGetPciInfo_v3, g, Gpu g, Pci *pci) write_pci(g, pci); return OK; }

FUNCTION(nvmlDeviceGetMigMode, g, Gpu g, Uint *current, Uint *pending)
    double mode = number(g, "mig", g->architecture < 7 ? -1 : 0);
    if (mode < 0 || g->parent) return NOT_SUPPORTED;
    *current = *pending = mode;
    return OK; }
FUNCTION(nvmlDeviceGetMaxMigDeviceCount, g, Gpu g, Uint *n) *n = number(g, "mig", 0) > 0 ? 7 : 0; return OK; }
FUNCTION(nvmlDeviceGetMigDeviceHandleByIndex, g, Gpu g, Uint index, Gpu *part)
    for (int i = 0; i < n_instances; i++)
        if (instances[i].parent == g && !index--) { *part = &instances[i]; return OK; }
    return NOT_FOUND; }
FUNCTION(nvmlDeviceGetGpuInstanceId, g, Gpu g, Uint *id) *id = g->gpu_instance; return g->parent ? OK : INVALID_ARGUMENT; }
FUNCTION(nvmlDeviceGetComputeInstanceId, g, Gpu g, Uint *id) *id = g->compute_instance; return g->parent ? OK : INVALID_ARGUMENT; }
FUNCTION(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, g, Gpu g, Gpu *whole) *whole = g->parent; return g->parent ? OK : INVALID_ARGUMENT; }

#define NUMBER(symbol, key, otherwise) \
    FUNCTION(symbol, g, Gpu g, Uint *value) double set = number(g, key, otherwise); *value = set; return set < 0 ? NOT_SUPPORTED : OK; }
NUMBER(nvmlDeviceGetPersistenceMode, "persistence", 1)
NUMBER(nvmlDeviceGetComputeMode, "compute_mode", 0)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw", 700000)
NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit_mw", 700000)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "default_power_limit_mw", 700000)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_max_generation", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_max_width", 16)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie_gpu_max_generation", 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width", 16)
FUNCTION(nvmlDeviceGetCurrPcieLinkGeneration, g, Gpu g, Uint *value)
    *value = number(g, is_busy(g) ? "pcie_generation" : "pcie_idle_generation", 5); return OK; }
FUNCTION(nvmlDeviceGetPowerManagementLimitConstraints, g, Gpu g, Uint *least, Uint *most)
    *least = number(g, "min_power_limit_mw", 200000); *most = number(g, "max_power_limit_mw", 700000); return OK; }
FUNCTION(nvmlDeviceGetEccMode, g, Gpu g, Uint *current, Uint *pending)
    double mode = number(g, "ecc", 1);
    *current = *pending = mode;
    return mode < 0 ? NOT_SUPPORTED : OK; }
static Return clock_of(Gpu g, const char *kind, Uint type, Uint *mhz) {
    char key[64];
    snprintf(key, sizeof key, "%s%s_clock_mhz", kind, type == 2 ? "memory" : "sm");
    double otherwise = type == 2 ? 2619 : *kind ? 1980 : 1980 - 10 * g->number;
    double set = number(g, key, otherwise);
    if (!*kind && type != 2 && !is_busy(g)) set = number(g, "idle_sm_clock_mhz", set);
    *mhz = set;
    return set < 0 ? NOT_SUPPORTED : OK;
}
FUNCTION(nvmlDeviceGetClockInfo, g, Gpu g, Uint type, Uint *mhz) return clock_of(g, "", type, mhz); }
FUNCTION(nvmlDeviceGetMaxClockInfo, g, Gpu g, Uint type, Uint *mhz) return clock_of(g, "max_", type, mhz); }
FUNCTION(nvmlDeviceGetApplicationsClock, g, Gpu g, Uint type, Uint *mhz) return clock_of(g, "application_", type, mhz); }
FUNCTION(nvmlDeviceGetDefaultApplicationsClock, g, Gpu g, Uint type, Uint *mhz) return clock_of(g, "default_application_", type, mhz); }
FUNCTION(nvmlDeviceGetMaxCustomerBoostClock, g, Gpu g, Uint type, Uint *mhz)
    double set = number(g, "boost_sm_clock_mhz", -2);
    if (type == 1 && set != -2) { *mhz = set; return set < 0 ? NOT_SUPPORTED : OK; }
    return clock_of(g, "max_", type, mhz); }

/* "PID BYTES" for each process, between commas, with the number of its MIG instance where it has one. */
static Return processes(Gpu g, const char *key, Uint *n, Process *out) {
    Uint room = *n, found = 0;
    const char *list = now(CLOCK_MONOTONIC) < number(g, "processes_at", 0) ? "" : text(g, key, "");
    for (const char *at = list; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] != 0)) {
        Process one;
        memset(&one, 0xff, sizeof one);
        sscanf(at, "%u %llu %u", &one.pid, &one.memory, &one.gpu_instance);
        if (g->parent && one.gpu_instance != (Uint)g->gpu_instance) continue;
        if (out && found < room) out[found] = one;
        found++;
    }
    *n = found;
    return found > room ? TOO_SMALL : OK;
}
FUNCTION(nvmlDeviceGetComputeRunningProcesses_v2, g, Gpu g, Uint *n, Process *out) return processes(g, "processes", n, out); }
FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3, g, Gpu g, Uint *n, Process *out) return processes(g, "processes", n, out); }
FUNCTION(nvmlDeviceGetMPSComputeRunningProcesses_v3, g, Gpu g, Uint *n, Process *out) return processes(g, "mps_processes", n, out); }

/* The nth number of a list, between commas. */
static int nth(const char *list, int n, int otherwise) {
    for (; n && *list; n--) list += strcspn(list, ",") + (list[strcspn(list, ",")] != 0);
    return *list ? atoi(list) : otherwise;
}

/* As `levels` say. Else GPUs under one `switch` are PIX, under one `bridge` PHB, on one `numa` node NODE, else SYS. */
FUNCTION(nvmlDeviceGetTopologyCommonAncestor, a, Gpu a, Gpu b, Uint *level)
    if (text(a, "levels", NULL)) *level = nth(text(a, "levels", ""), b->number, 50);
    else if (number(a, "switch", -1) >= 0 && number(a, "switch", -1) == number(b, "switch", -2)) *level = 10;
    else if (number(a, "bridge", -1) >= 0 && number(a, "bridge", -1) == number(b, "bridge", -2)) *level = 30;
    else *level = number(a, "numa", 0) == number(b, "numa", 0) ? 40 : 50;
    return OK; }
FUNCTION(nvmlDeviceGetP2PStatus, a, Gpu a, Gpu b, Uint what, Uint *status)
    if (what == 0 && text(a, "p2p_statuses", NULL)) *status = nth(text(a, "p2p_statuses", ""), b->number, 0);
    else *status = number(a, what == 2 ? "p2p_nvlink" : "p2p", number(a, "nvlinks", 0) > 0 ? 0 : what == 2 ? 5 : 0);
    return OK; }
FUNCTION(nvmlDeviceGetCpuAffinity, g, Gpu g, Uint n, unsigned long *set)
    memset(set, 0, n * sizeof *set);
    for (const char *at = text(g, "cpus", "0-7"); *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] != 0)) {
        Uint first = atoi(at), last = first;
        sscanf(at, "%u-%u", &first, &last);
        for (Uint cpu = first; cpu <= last && cpu < 64 * n; cpu++) set[cpu / 64] |= 1ul << cpu % 64;
    }
    return OK; }

/* The NUMA nodes near the GPU, whose memory is the host's. */
FUNCTION(nvmlDeviceGetMemoryAffinity, g, Gpu g, Uint n, unsigned long *set, Uint scope)
    double node = number(g, "numa", 0);
    memset(set, 0, n * sizeof *set);
    if (scope || node < 0) return NOT_SUPPORTED;
    set[0] = 1ul << (int)node;
    return OK; }
FUNCTION(nvmlDeviceGetGpuFabricInfoV, g, Gpu g, Fabric *fabric)
    double state = number(g, "fabric_state", -1);
    if (fabric->version != 0x2000024) return VERSION_MISMATCH;
    memset(fabric->cluster, 0xfa, sizeof fabric->cluster);
    fabric->state = state;
    fabric->status = number(g, "fabric_status", OK);
    fabric->clique = number(g, "fabric_clique", 0);
    fabric->health = number(g, "fabric_health", 2); /* bits 0 and 1: 1 is degraded, 2 is not */
    return state < 0 ? NOT_SUPPORTED : OK; }

/* All links of a GPU go to switches, or in equal parts to the other GPUs. */
static int has_link(Gpu g, Uint link) { return link < number(g, "nvlinks", 0); }
FUNCTION(nvmlDeviceGetNvLinkState, g, Gpu g, Uint link, Uint *active)
    *active = has_link(g, link);
    return link >= 18 ? INVALID_ARGUMENT : number(g, "nvlinks", 0) > 0 ? OK : NOT_SUPPORTED; }
FUNCTION(nvmlDeviceGetNvLinkVersion, g, Gpu g, Uint link, Uint *version)
    *version = number(g, "nvlink_version", 4); return has_link(g, link) ? OK : NOT_SUPPORTED; }
FUNCTION(nvmlDeviceGetNvLinkRemoteDeviceType, g, Gpu g, Uint link, Uint *type)
    *type = number(g, "nvswitch", 0) ? 2 : 0; return has_link(g, link) ? OK : NOT_SUPPORTED; }
FUNCTION(nvmlDeviceGetNvLinkRemotePciInfo_v2, g, Gpu g, Uint link, Pci *pci)
    if (!has_link(g, link) || number(g, "nvswitch", 0)) return NOT_SUPPORTED;
    int turn = link % (count > 1 ? count - 1 : 1), peer = turn >= g->number ? turn + 1 : turn;
    write_pci(&gpus[nth(text(g, "link_peers", ""), link, peer)], pci);
    return OK; }
