// The time slice of a thread in the kernel's fair scheduler.
#pragma once

namespace hearth {

// Gives the calling thread the shortest slice, 0.1 ms: when it wakes it takes the core at once from
// a thread that computes, and in turn is taken from the core sooner. Its share of processor time
// stays the same. Linux before 6.12 has one slice for all, and nothing changes (sched_setattr(2)).
void shortenTimeSlice();

}  // namespace hearth
