package doctor

import (
	"context"
	"sync"
)

// Channels checks that the receiver of each notification channel can be reached and accepts the
// credentials. probe connects to one without sending anything, and describes it.
func Channels(ctx context.Context, names []string, probe func(ctx context.Context, name string) (string, error)) []Result {
	if len(names) == 0 {
		return Passed("no channels are configured; nobody is notified of runs")
	}
	found := make([]Result, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() {
			results := Passed("")
			if text, err := probe(ctx, name); err != nil {
				results = FailedBy(err, "correct notifications."+name+"; then try it: rgpt notification test "+name)
			} else {
				results[0].Message = text
			}
			results[0].Check = "notifications: " + name
			found[i] = results[0]
		})
	}
	wait.Wait()
	return found
}
