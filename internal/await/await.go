// Package await is for tests that wait until something in the background has happened.
package await

import (
	"testing"
	"time"
)

const (
	deadline = 3 * time.Minute
	// The pause between two checks of a condition grows with the time waited, because each may be a
	// query that takes processor time from what the test waits for.
	shortestPause = 2 * time.Millisecond
	longestPause  = 50 * time.Millisecond
	pauses        = 16 // in the time waited so far
)

// Until returns soon after a condition holds. If that takes too long, the test fails with the
// description of the condition.
func Until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for began := time.Now(); !holds(); {
		waited := time.Since(began)
		if waited > deadline {
			tb.Fatalf("waited longer than %s for %s", deadline, what)
		}
		<-time.After(min(max(shortestPause, waited/pauses), longestPause))
	}
}
