package showcase

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
)

// flakyTests writes tests with both outcomes at several states of the code, and quarantines some of
// them.
func (f *dataset) flakyTests(ctx context.Context, repo string, names []string, reason, by string) error {
	history := flaky.New(f.store)
	for i, name := range names {
		for state := range 2 + i%3 {
			for n, status := range []contract.TestStatus{contract.TestPassed, contract.TestFailed, contract.TestFlaky}[:2+i%2] {
				err := history.Record(ctx, flaky.Recording{
					Source: fmt.Sprintf("showcase/%s/%d/%d/%d", repo, i, state, n), Repo: repo, Check: contract.Check{ID: "test-go-1", Category: contract.CategoryTest},
					RunID: int64(state + 1), State: fmt.Sprint(state), Window: 30 * day, Cases: []contract.TestCase{{Name: name, Status: status, DurationMS: 20}},
				})
				if err != nil {
					return err
				}
			}
		}
		if i%2 == 1 {
			continue
		}
		// Control characters are not accepted.
		test := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, name)
		if _, err := history.Add(ctx, flaky.Entry{Repo: repo, Test: cut(test, flaky.MaxName), Reason: cut(reason, 1000), CreatedBy: cut(by, 100), ExpiresAt: time.Now().Add(14 * day)}, 100); err != nil {
			return err
		}
	}
	return nil
}
