package main

import "runtime/debug"

// gcPercent is how much the heap of the server grows between two garbage collections, relative to
// what is in use, if GOGC does not say otherwise. With Go's default of 100, collections take 5% of
// the server's CPU time. Twice the growth halves their number, and costs memory: the heap may be
// three times what is in use instead of twice.
const gcPercent = 200

// tuneGC applies gcPercent unless the environment has GOGC, which the runtime has applied already.
// GOMEMLIMIT applies in either case: as the heap approaches it, collections become more frequent.
func tuneGC(getenv func(string) string) {
	if getenv("GOGC") == "" { // the runtime, too, takes an empty value for none
		debug.SetGCPercent(gcPercent)
	}
}
