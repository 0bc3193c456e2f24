package main

import "runtime/debug"

// gcPercent is how much the heap of the worker grows between two garbage collections, relative to
// what is in use, if GOGC does not say otherwise. With Go's default of 100, collections take 6% of
// the worker's CPU time, at a resident set of 150 MB. Twice the growth halves their number, and
// costs memory: the heap may be three times what is in use instead of twice, a few dozen megabytes,
// which is little beside what the commands of one run need.
const gcPercent = 200

// tuneGC applies gcPercent unless the environment has GOGC, which the runtime has applied already.
// GOMEMLIMIT applies in either case: as the heap approaches it, collections become more frequent.
func tuneGC(getenv func(string) string) {
	if getenv("GOGC") == "" { // the runtime, too, takes an empty value for none
		debug.SetGCPercent(gcPercent)
	}
}
