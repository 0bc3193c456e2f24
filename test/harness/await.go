package harness

import (
	"testing"
	"time"
)

// Await calls ok until it returns true. After the time limit, it fails with a description of the
// condition and the last state that ok returned.
func Await(tb testing.TB, what string, most time.Duration, ok func() (bool, string)) {
	tb.Helper()
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		done, last := ok()
		if done {
			return
		}
		select {
		case <-deadline.C:
			tb.Fatalf("waited %s for %s; last: %s", most, what, last)
		case <-tick.C:
		}
	}
}
