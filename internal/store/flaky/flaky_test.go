package flaky_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

const (
	repo   = "/repos/calculator"
	window = 30 * 24 * time.Hour
)

// history is a history of tests with its own database.
type history struct {
	*flaky.Store
	fixture *storetest.Fixture
	t       *testing.T
	n       int
}

func newHistory(t *testing.T) *history {
	t.Helper()
	f := storetest.Setup(t)
	return &history{Store: flaky.New(f.Store), fixture: f, t: t}
}

// record records the outcome of a check of its own run.
func (h *history) record(state string, cases ...contract.TestCase) {
	h.t.Helper()
	h.n++
	require.NoError(h.t, h.Record(h.t.Context(), h.recording(fmt.Sprintf("execution/%d", h.n), state, cases...)))
}

func (h *history) recording(source, state string, cases ...contract.TestCase) flaky.Recording {
	return flaky.Recording{
		Source: source, Repo: repo, Check: contract.Check{ID: fmt.Sprintf("test-go-%d", h.n%3+1), Category: contract.CategoryTest}, RunID: int64(h.n),
		State: state, Window: window, Cases: cases,
	}
}

// flips returns the number of flips of each flaky test.
func (h *history) flips() map[string]int {
	h.t.Helper()
	list, err := h.Flaky(h.t.Context(), repo, window, 50)
	require.NoError(h.t, err)
	out := map[string]int{}
	for _, t := range list {
		out[t.Name] = t.Flips
	}
	return out
}

// exec changes rows, such as their age.
func (h *history) exec(sql string) {
	h.t.Helper()
	conn, err := pgx.Connect(h.t.Context(), h.fixture.URL)
	require.NoError(h.t, err)
	_, err = conn.Exec(h.t.Context(), sql)
	require.NoError(h.t, err)
	require.NoError(h.t, conn.Close(h.t.Context()))
}

func (h *history) count(table string) (n int) {
	h.t.Helper()
	conn, err := pgx.Connect(h.t.Context(), h.fixture.URL)
	require.NoError(h.t, err)
	require.NoError(h.t, conn.QueryRow(h.t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	require.NoError(h.t, conn.Close(h.t.Context()))
	return n
}

func pass(name string) contract.TestCase {
	return contract.TestCase{Name: name, Status: contract.TestPassed, DurationMS: 5}
}

func fail(name string) contract.TestCase {
	return contract.TestCase{Name: name, Status: contract.TestFailed}
}

func rerun(name string) contract.TestCase {
	return contract.TestCase{Name: name, Status: contract.TestFlaky}
}

func TestATestIsFlakyIfOneStateOfTheCodeHasBothOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcomes []string // state and outcome
		flips    int
	}{
		"passed, then failed":                 {[]string{"a+", "a-"}, 1},
		"failed, then passed":                 {[]string{"a-", "a+"}, 1},
		"passed in a re-run":                  {[]string{"a~"}, 1},
		"at two states":                       {[]string{"a-", "a+", "b-", "b+", "b-"}, 2},
		"a re-run and both outcomes":          {[]string{"a~", "a-", "a+"}, 1},
		"broken by one change, then repaired": {[]string{"a+", "b-", "c+"}, 0},
		"reverted":                            {[]string{"a+", "b-", "a+"}, 0},
		"always broken":                       {[]string{"a-", "a-", "b-"}, 0},
		"quarantined failures are failures":   {[]string{"a+", "aq"}, 1},
		"skipped is no outcome":               {[]string{"as", "a-", "as"}, 0},
		"interleaved with another state":      {[]string{"a-", "b-", "a+"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(t)
			for _, o := range c.outcomes {
				status := map[byte]contract.TestStatus{
					'+': contract.TestPassed, '-': contract.TestFailed, '~': contract.TestFlaky, 'q': contract.TestQuarantined, 's': contract.TestSkipped,
				}[o[1]]
				h.record(o[:1], contract.TestCase{Name: "m.A", Status: status}, pass("m.Fine"))
			}
			want := map[string]int{}
			if c.flips > 0 {
				want["m.A"] = c.flips
			}
			require.Equal(t, want, h.flips())
		})
	}
}

func TestARepeatedRecordingOfACheckCountsOnce(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	for range 3 {
		require.NoError(t, h.Record(t.Context(), h.recording("execution/7/test-go-1", "a", rerun("m.A"))))
	}
	list, err := h.Flaky(t.Context(), "", window, 50)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []int64{0, 0, 1, 0}, []int64{list[0].Passes, list[0].Failures, list[0].Reruns, list[0].Streak})
	require.Equal(t, "test-go", list[0].Check, "the shard is not part of the identity")
	require.Nil(t, list[0].ExpiresAt)
}

func TestTestsThatShareANameAreNotOneTestWithTwoOutcomes(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.record("a", pass("m.A"), fail("m.A"))
	h.record("a", fail("m.A"), pass("m.A"))
	require.Empty(t, h.flips())
}

func TestTestsThatAllFailTogetherAreNotSuspected(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	var red, green []contract.TestCase
	for i := range flaky.MaxFailures + 1 {
		red, green = append(red, fail(fmt.Sprintf("m.T%d", i))), append(green, pass(fmt.Sprintf("m.T%d", i)))
	}
	h.record("a", green...)
	h.record("a", red...)
	require.Zero(t, h.count("orchestrator_test_states"))
	require.Empty(t, h.flips())
	require.Equal(t, flaky.MaxFailures+1, h.count("orchestrator_tests"), "they are known all the same")
}

func TestWhatIsOlderThanTheWindowDoesNotCountAndWhatIsOlderThanTheHistoryIsRemoved(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.record("a", rerun("m.A"), pass("m.Gone"))
	h.exec("UPDATE orchestrator_test_states SET last_at = now() - interval '40 days'")
	require.Empty(t, h.flips())
	h.exec("UPDATE orchestrator_tests SET seen_at = now() - interval '100 days' WHERE name = 'm.Gone'; UPDATE orchestrator_test_recordings SET created_at = now() - interval '100 days'")
	require.NoError(t, h.Clean(t.Context(), 90*24*time.Hour))
	require.Equal(t, []int{1, 1, 0}, []int{h.count("orchestrator_tests"), h.count("orchestrator_test_states"), h.count("orchestrator_test_recordings")})
	h.exec("UPDATE orchestrator_tests SET seen_at = now() - interval '100 days'")
	require.NoError(t, h.Clean(t.Context(), 90*24*time.Hour))
	require.Equal(t, []int{0, 0}, []int{h.count("orchestrator_tests"), h.count("orchestrator_test_states")}, "with its states")
}

func TestTheHistoryOfARepositoryIsBounded(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.record("a", pass("m.Newest"))
	h.exec(fmt.Sprintf(`INSERT INTO orchestrator_tests (key, repo, check_id, name, seen_at)
		SELECT sha256(n::text::bytea), '%s', 'test-go', 'm.T' || n, now() - interval '1 hour' FROM generate_series(1, %d) n`, repo, flaky.MaxTests+5))
	require.NoError(t, h.Clean(t.Context(), 90*24*time.Hour))
	require.Equal(t, flaky.MaxTests, h.count("orchestrator_tests"))
	require.Equal(t, 1, h.count("orchestrator_tests WHERE name = 'm.Newest'"))
}

// quarantined returns the names that verifications of the repository use.
func (h *history) quarantined() (names []string) {
	h.t.Helper()
	list, err := h.Current(h.t.Context(), store.Run{Repo: repo}, 100)
	require.NoError(h.t, err)
	for _, e := range list {
		names = append(names, e.Test)
	}
	return names
}

func entry(name string) flaky.Entry {
	return flaky.Entry{Repo: repo, Test: name, Reason: "slow", CreatedBy: "ann", ExpiresAt: time.Now().Add(time.Hour)}
}

func TestAQuarantineEndsByItselfOrByAPersonAndRemainsDocumented(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	first, err := h.Add(t.Context(), entry("m.A"), 10)
	require.NoError(t, err)
	require.True(t, first.Active)
	_, err = h.Add(t.Context(), entry("m.B"), 10)
	require.NoError(t, err)
	require.Equal(t, []string{"m.A", "m.B"}, h.quarantined())

	again, err := h.Add(t.Context(), entry("m.A"), 10)
	require.NoError(t, err)
	require.Equal(t, []string{"m.B", "m.A"}, h.quarantined(), "the new entry replaces the old one")
	_, removed, err := h.Remove(t.Context(), again.ID, "bob")
	require.NoError(t, err)
	require.True(t, removed)
	e, removed, err := h.Remove(t.Context(), again.ID, "eve")
	require.NoError(t, err)
	require.False(t, removed)
	require.Equal(t, "bob", e.RemovedBy)
	h.exec("UPDATE orchestrator_quarantine SET created_at = now() - interval '2 hours', expires_at = now() - interval '1 hour' WHERE name = 'm.B'")
	require.Empty(t, h.quarantined())
	current, err := h.List(t.Context(), repo, false, 50)
	require.NoError(t, err)
	require.Empty(t, current)
	all, err := h.List(t.Context(), repo, true, 50)
	require.NoError(t, err)
	require.Len(t, all, 3)
	for _, e := range all {
		require.False(t, e.Active)
		require.Equal(t, []string{"ann", "slow"}, []string{e.CreatedBy, e.Reason})
	}
	_, _, err = h.Remove(t.Context(), 4711, "bob")
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestAQuarantineWithoutAReasonAnEndOrAUsableNameIsRefused(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	for want, change := range map[string]func(*flaky.Entry){
		"a reason":             func(e *flaky.Entry) { e.Reason = "" },
		"its name":             func(e *flaky.Entry) { e.Test = "" },
		"already have expired": func(e *flaky.Entry) { e.ExpiresAt = time.Time{} },
		"1001 bytes":           func(e *flaky.Entry) { e.Test = strings.Repeat("x", flaky.MaxName+1) },
		"control characters":   func(e *flaky.Entry) { e.Test = "m.A\x1b[2J" },
		"2001 bytes":           func(e *flaky.Entry) { e.Reason = strings.Repeat("x", 2001) },
	} {
		e := entry("m.A")
		change(&e)
		_, err := h.Add(t.Context(), e, 10)
		require.ErrorContains(t, err, want)
		require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
	}
	hostile := `<img src=x onerror=alert(1)>/` + strings.Repeat("é", 300)
	made, err := h.Add(t.Context(), entry(hostile), 1)
	require.NoError(t, err)
	require.Equal(t, hostile, made.Test)
	_, err = h.Add(t.Context(), entry(hostile), 1)
	require.NoError(t, err, "it replaces its own entry")
	_, err = h.Add(t.Context(), entry("m.B"), 1)
	require.ErrorContains(t, err, "already has 1 quarantined tests, the maximum (verification.flaky.max_quarantined)")
	require.Equal(t, []string{hostile}, h.quarantined())
}

func TestAnEntryTellsWhetherItsTestPassesAgainOrNoLongerExists(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	_, err := h.Add(t.Context(), entry("m.A"), 10)
	require.NoError(t, err)
	listed := func() flaky.Entry {
		list, err := h.List(t.Context(), "", false, 50)
		require.NoError(t, err)
		require.Len(t, list, 1)
		return list[0]
	}
	require.Nil(t, listed().SeenAt, "no run has recorded it")
	h.record("a", fail("m.A"))
	for range 4 {
		h.record("a", pass("m.A"))
	}
	e := listed()
	require.Equal(t, []int64{4, 1, 4}, []int64{e.Passes, e.Failures, e.Streak})
	require.NotNil(t, e.SeenAt)
	require.NotNil(t, e.FailedAt)
	for i := range flaky.GoneAfter {
		require.False(t, listed().Missing, i)
		h.record("b", pass("m.B"))
	}
	require.True(t, listed().Missing)
	h.record("c", pass("m.A"))
	require.False(t, listed().Missing)
}

func TestAPolicyQuarantinesATestOnceForTheSameEvidence(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	policy := flaky.Policy{Window: window, After: 2, Expiry: 14 * 24 * time.Hour, Most: 2}
	apply := func() (names []string) {
		added, err := h.Apply(t.Context(), repo, policy)
		require.NoError(t, err)
		for _, e := range added {
			require.Equal(t, "policy", e.Source)
			require.WithinDuration(t, time.Now().Add(policy.Expiry), e.ExpiresAt, time.Minute)
			require.Contains(t, e.Reason, "states of the code in 30 days")
			names = append(names, e.Test)
		}
		return names
	}
	h.record("a", rerun("m.A"))
	require.Empty(t, apply(), "one state could be an accident")
	h.record("b", rerun("m.A"))
	require.Equal(t, []string{"m.A"}, apply())
	require.Empty(t, apply(), "it is quarantined")
	list, err := h.List(t.Context(), repo, false, 50)
	require.NoError(t, err)
	_, _, err = h.Remove(t.Context(), list[0].ID, "ann")
	require.NoError(t, err)
	require.Empty(t, apply(), "a person has removed it, and nothing happened since")
	h.record("c", rerun("m.A"))
	h.record("d", rerun("m.A"))
	require.Equal(t, []string{"m.A"}, apply())
	for _, name := range []string{"m.B", "m.C"} {
		h.record("e", rerun(name))
		h.record("f", rerun(name))
	}
	require.Len(t, apply(), 1, "no more than the maximum")
	require.Len(t, h.quarantined(), 2)
}

func TestPeopleWhoQuarantineAtTheSameTimeDoNotExceedTheMaximum(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	const most, people = 3, 24
	done := make(chan error)
	for n := range people {
		go func() {
			_, err := h.Add(t.Context(), entry(fmt.Sprint("m.", n%(2*most))), most)
			done <- err
		}()
	}
	for range people {
		if err := <-done; err != nil {
			require.ErrorContains(t, err, "already has 3 quarantined tests, the maximum")
		}
	}
	names := h.quarantined()
	require.Len(t, names, most)
	slices.Sort(names)
	require.Len(t, slices.Compact(names), most, "one entry for each test, so that removing it ends its quarantine")
}

// A change that makes a test flaky must not be the reason why the test no longer counts.
func TestTheFlakinessOfOneRunQuarantinesNothing(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	policy := flaky.Policy{Window: window, After: 2, Expiry: 14 * 24 * time.Hour, Most: 10}
	attempt := func(run int64, state string) []flaky.Entry {
		h.n++
		r := h.recording(fmt.Sprintf("execution/%d", h.n), state, rerun("m.A"))
		r.RunID = run
		require.NoError(t, h.Record(t.Context(), r))
		added, err := h.Apply(t.Context(), repo, policy)
		require.NoError(t, err)
		return added
	}
	for _, state := range []string{"a", "b", "c"} {
		require.Empty(t, attempt(1, state), "only attempts of one run")
	}
	require.Equal(t, map[string]int{"m.A": 3}, h.flips(), "which people can see")
	before := time.Now()
	require.Len(t, attempt(2, "d"), 1, "another run has the same trouble")

	for name, c := range map[string]struct {
		run     store.Run
		applies bool
	}{
		"the run that gave the last evidence": {store.Run{ID: 2, CreatedAt: before.Add(-time.Hour)}, false},
		"the run that gave the first":         {store.Run{ID: 1, CreatedAt: before.Add(-time.Hour)}, false},
		"a run that began before the entry":   {store.Run{ID: 3, CreatedAt: before.Add(-time.Hour)}, true},
		"a later run":                         {store.Run{ID: 4, CreatedAt: before.Add(time.Hour)}, true},
	} {
		c.run.Repo = repo
		list, err := h.Current(t.Context(), c.run, 10)
		require.NoError(t, err)
		require.Equal(t, c.applies, len(list) == 1, name)
	}
	_, err := h.Add(t.Context(), entry("m.A"), 10)
	require.NoError(t, err)
	list, err := h.Current(t.Context(), store.Run{ID: 2, Repo: repo, CreatedAt: before.Add(-time.Hour)}, 10)
	require.NoError(t, err)
	require.Len(t, list, 1, "a person may decide that at any time")
}

func TestTheQuarantineOfAnExecutionIsTheOneThatWasStoredFirst(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	e := h.fixture.Apply(t, contract.Record{Begin: &contract.ExecutionBegin{Phase: contract.PhaseTester, Agent: contract.AgentTester}})
	none, err := h.Used(t.Context(), e.ID)
	require.NoError(t, err)
	require.Empty(t, none)
	first := []contract.QuarantinedTest{{ID: 1, Test: "m.A", ExpiresAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), Ignored: "the change edits it"}}
	for _, list := range [][]contract.QuarantinedTest{first, {{ID: 2, Test: "m.B"}}} {
		used, err := h.Use(t.Context(), e.ID, list)
		require.NoError(t, err)
		require.Equal(t, first, used)
	}
	used, err := h.Used(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, first, used)
}
