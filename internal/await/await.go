// Package await is for tests that wait until something in the background has happened.
package await

import (
	"testing"
	"time"
)

const (
	deadline = 3 * time.Minute
	interval = 2 * time.Millisecond
)

// Until returns as soon as a condition holds. If that takes too long, the test fails with the
// description of the condition.
func Until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	late := time.After(deadline)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("waited longer than %s for %s", deadline, what)
		}
	}
}
