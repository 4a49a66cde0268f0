"""From where on something is a finding, and why there. Shares are fractions of 1."""

# Busy cores over wall time may stray this far from whole cores: timer ticks, system time.
BUSY_MARGIN = 1.15

# The slowest rank sets the pace. This far apart, a tenth of the other devices' time is spent waiting.
IMBALANCE_LIMIT = 0.10

# More than the devices can give, once timer and noise are allowed for.
EFFICIENCY_LIMIT = 1.05

# Standard deviation between launches. Three launches at this noise leave an interval of ±12 %.
NOISE_LIMIT = 0.05

# A change over the rounds of a launch, or over a run, that is worth a word once it is more than noise: twice the
# margin at which two numbers count as different.
DRIFT_LIMIT = 0.02

# A step in the rounds (their median) against one at the end of a steady warm-up, as a factor either way. In 89 launches
# of `results/examples/`, on two cores that others share, it was 0.74 to 1.33, and 0.64 to 1.39 while others took up to
# half of the cores' time. A GPU that heat holds to its base clock comes to 1.7, a core that is shared with one other
# process in one of the two to 2: no more than that has an innocent cause.
UNLIKE_WARNING = 1.8
UNLIKE_SEVERE = 3.0

# Time of a share's cores that went to other processes, or to other guests of the same host. A step that waits for
# such a core takes up to 1/(1 - load) as long: 5 % of load can hide as much as NOISE_LIMIT, a quarter makes the number
# one about the neighbour. In quiet rounds here, timer ticks and the edges of rounds came to 2 % and less.
LOAD_WARNING = 0.05
LOAD_SEVERE = 0.25

# What a round lasted longer than its slowest rank took, as its ranks did not begin together. They begin within a few
# milliseconds, and where they exchange gradients, who is early waits for who is late: under 0.04 % with two ranks on
# two busy cores. Over 1 % of that would make a number too high by the margin at which two count as different. Ranks
# that run one after another make a round last twice as long or more.
APART_WARNING = 0.01
APART_SEVERE = 0.75

# Time in which a GPU's clock was held down, or CPU time that a quota withheld. Under a hundredth it cannot show in a
# throughput.
THROTTLE_WARNING = 0.01
THROTTLE_SEVERE = 0.25

# A GPU in use before a launch has touched it. A context that idles holds some hundred MiB.
FOREIGN_UTILIZATION_PERCENT = 5.0
FOREIGN_MEMORY_BYTES = 512 << 20

# Of its highest clock, under which a busy GPU is held down by something. GeForce cards never reach the highest that
# their driver names: 2520 of 3105 MHz is the boost clock of an RTX 4090.
CLOCK_HELD = 0.75
BUSY_PERCENT = 90.0

# What a round without steps takes, against a round: as much as launches may differ by noise.
TIMING_COST_SEVERE = 0.05

# Of the readings that were due, above which a launch was sampled so seldom that a reader should know.
DROPPED_SHARE = 0.5

# Of the sampler's period, under which a round is too short for figures that are means of readings.
FEWEST_PERIODS = 5
