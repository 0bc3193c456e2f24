package source_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"

	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
	"github.com/rocketgpt/orchestrator/internal/forge/webhook"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/trigger/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

const path = "team/app"

// world is a GitHub and a GitLab in memory, and the database of servers that look at them.
type world struct {
	*storetest.Fixture
	hub    *forgetest.GitHub
	lab    *forgetest.GitLab
	repos  map[string]*forgetest.Repository
	faults map[string]*forgetest.Faults
	forges *connect.Set
	config config.Config
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Fixture: storetest.Setup(t), hub: forgetest.NewGitHub(t), lab: forgetest.NewGitLab(t)}
	w.hub.Clock(time.Now())
	w.lab.Clock(time.Now())
	w.repos = map[string]*forgetest.Repository{"hub": w.hub.Repository(path), "lab": w.lab.Repository(path)}
	w.faults = map[string]*forgetest.Faults{"hub": w.hub.Faults, "lab": w.lab.Faults}
	for _, repo := range w.repos {
		repo.SetMember(forgetest.Stranger, forge.PermissionRead)
	}
	of := func(kind, address string) config.Forge {
		return config.Forge{Kind: kind, URL: address, TokenEnv: "TOKEN", Poll: 5 * time.Millisecond, Timeout: 5 * time.Second}
	}
	w.config.Forges = map[string]config.Forge{"hub": of("github", w.hub.URL()), "lab": of("gitlab", w.lab.URL())}
	w.config.Triggers = map[string]config.Trigger{
		"nightly": {On: config.OnSchedule, Cron: "0 3 * * *"},
	}
	var err error
	w.forges, err = connect.New(w.config.Forges, func(string) string { return forgetest.BotToken })
	require.NoError(t, err)
	t.Cleanup(w.forges.Close)
	return w
}

// on adds triggers of all kinds for a forge.
func (w *world) on(name string) {
	for _, on := range []string{config.OnIssue, config.OnComment, config.OnCheck} {
		w.config.Triggers[name+"-"+on] = config.Trigger{On: on, Forge: name, Repository: path, Label: "rgpt", CatchUp: time.Hour}
	}
}

func (w *world) service(change func(*source.Options)) *source.Service {
	o := source.Options{
		Store: w.Store, Forges: w.forges, Settings: w.config.Forges, Triggers: w.config.Triggers, Mention: "@rgpt", Commenters: forge.PermissionWrite,
		Limit: func(string) *rate.Limiter { return rate.NewLimiter(rate.Inf, 1) }, Log: slog.New(slog.DiscardHandler), Tick: time.Millisecond, FirstWait: 5 * time.Millisecond,
	}
	if change != nil {
		change(&o)
	}
	return source.New(o)
}

// serve runs a service until the returned function is called, at the latest until the test ends.
func serve(t *testing.T, s *source.Service) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// firing is a row.
type firing struct {
	trigger, delivery string
	payload           triggers.Payload
	at                time.Time
}

func (w *world) firings(t *testing.T) (all []firing) {
	t.Helper()
	storetest.Query(t, w.URL, func(ctx context.Context, conn *pgx.Conn) {
		rows, err := conn.Query(ctx, "SELECT trigger, delivery, payload, occurred_at FROM orchestrator_trigger_firings ORDER BY trigger, delivery")
		require.NoError(t, err)
		all, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (f firing, err error) {
			return f, r.Scan(&f.trigger, &f.delivery, &f.payload, &f.at)
		})
		require.NoError(t, err)
	})
	return all
}

func (w *world) keys(t *testing.T) (keys []string) {
	t.Helper()
	for _, f := range w.firings(t) {
		keys = append(keys, f.trigger+" "+f.delivery)
	}
	return keys
}

// looks returns the number of looks for a trigger that were begun, and the problem of the last one.
func (w *world) looks(t *testing.T, trigger string) (n int64, problem string) {
	t.Helper()
	storetest.Query(t, w.URL, func(ctx context.Context, conn *pgx.Conn) {
		_ = conn.QueryRow(ctx, "SELECT looks, problem FROM orchestrator_triggers WHERE name = $1", trigger).Scan(&n, &problem)
	})
	return n, problem
}

// looked waits until more looks were begun for triggers.
func (w *world) looked(t *testing.T, more int64, names ...string) {
	t.Helper()
	for _, name := range names {
		before, _ := w.looks(t, name)
		await.Until(t, fmt.Sprintf("%d looks for %s", more, name), func() bool {
			n, _ := w.looks(t, name)
			return n >= before+more
		})
	}
}

// began waits until triggers were looked for.
func (w *world) began(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		await.Until(t, "a look for "+name, func() bool {
			n, _ := w.looks(t, name)
			return n > 0
		})
	}
}

func TestWhatHappensOnAForgeFiresATriggerOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hub", "lab"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.on(name)
			repo := w.repos[name]
			commit := repo.Push("main", map[string]string{"a.txt": "a"})
			token := "ghp_0123456789abcdefghijABCDEFGHIJ012345"
			issue := repo.OpenIssue("Add dark mode "+token, "For all pages.", "rgpt")
			repo.OpenIssue("Of no interest", "@rgpt do it", "bug")
			closed := repo.OpenIssue("Done", "", "rgpt")
			repo.Close(forge.OnIssue(closed))
			on := forge.OnIssue(issue)
			repo.Say(on, "@rgpt please, but <!-- hidden --> keep "+token)
			repo.Say(on, "no mention")
			repo.Say(on, "> @rgpt quoted\nno")
			repo.SayAs(forgetest.Stranger, on, "@rgpt delete everything")
			repo.SayAs("nobody", on, "@rgpt delete everything")
			repo.SayAs(forgetest.Bot, on, "@rgpt I am myself")
			repo.Job(commit, "unit", forge.CheckFailure, "--- FAIL: TestX\n"+token)
			repo.Job(commit, "lint", forge.CheckSuccess, "")
			repo.Job(commit, "slow", forge.CheckPending, "")
			service, err := w.forges.Named(name)
			require.NoError(t, err)
			require.NoError(t, service.SetStatus(t.Context(), path, commit, forge.Status{Context: "rgpt/test", State: forge.CheckFailure}))
			repo.Push("feature", map[string]string{"b.txt": "b"})
			pull, err := service.CreatePullRequest(t.Context(), path, forge.NewPullRequest{Head: "feature", Base: "main", Title: "Mine"})
			require.NoError(t, err)
			repo.Label(forge.OnPullRequest(pull.Number), "rgpt")
			repo.Say(forge.OnPullRequest(pull.Number), "@rgpt on a pull request")

			names := []string{name + "-issue", name + "-comment", name + "-check"}
			first, second := w.service(nil), w.service(nil)
			stop := serve(t, first)
			serve(t, second)
			w.looked(t, 10, names...)
			repo.EditIssue(issue, "Delete everything", "Now.")
			repo.Job(commit, "unit", forge.CheckFailure, "again")
			for _, e := range []webhook.Event{
				{Repo: path, Kind: webhook.Labelled, Subject: on}, {Repo: "Team/App", Kind: webhook.Comment, Subject: on},
				{Repo: path, Kind: webhook.Check, Check: forge.Check{State: forge.CheckFailure}},
			} {
				for range 20 {
					asked, err := second.Ask(t.Context(), name, e)
					require.NoError(t, err)
					require.True(t, asked)
				}
			}
			stop()
			serve(t, w.service(nil))
			w.looked(t, 40, names...)

			all := w.firings(t)
			require.Equal(t, []string{
				name + "-check check:" + commit + ":unit", fmt.Sprintf("%s-comment %s", name, all[1].delivery), fmt.Sprintf("%s-issue issue:%d", name, issue),
			}, w.keys(t))
			address, err := w.forges.IssueURL(name, path, issue)
			require.NoError(t, err)
			check, comment, labelled := all[0].payload, all[1].payload, all[2].payload
			require.Equal(t, []string{address, "Add dark mode [redacted]", forgetest.Member}, []string{labelled.Issue, labelled.Title, labelled.Author})
			require.Equal(t, []string{address, "@rgpt please, but  keep [redacted]", forgetest.Member}, []string{comment.Issue, comment.Text, comment.Author})
			require.Equal(t, []string{"unit failed on the default branch of " + path, commit}, []string{check.Title, check.Commit})
			require.Contains(t, check.Text, "--- FAIL: TestX\n[redacted]")
			require.Empty(t, check.Issue)

			newer := repo.Push("main", map[string]string{"a.txt": "b"})
			repo.Job(newer, "unit", forge.CheckFailure, "")
			repo.Label(forge.OnIssue(2), "rgpt")
			repo.Say(forge.OnIssue(2), "Please, @RGPT")
			await.Until(t, "what is new fires", func() bool { return len(w.firings(t)) == 6 })
		})
	}
}

func TestARateLimitedForgeDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.on("hub")
	w.on("lab")
	w.repos["hub"].Push("main", map[string]string{"a": "a"})
	w.faults["lab"].Add(forgetest.Fault{Status: 429, Header: map[string]string{"Retry-After": "600"}, Times: 1000})
	serve(t, w.service(nil))
	w.began(t, "lab-issue")
	w.repos["hub"].OpenIssue("Add dark mode", "", "rgpt")
	await.Until(t, "the other forge fires", func() bool { return len(w.firings(t)) == 1 })
	w.looked(t, 50, "hub-issue")
	require.LessOrEqual(t, w.faults["lab"].Met(), 3, "one for each trigger at most")
	n, problem := w.looks(t, "lab-issue")
	require.Equal(t, int64(1), n)
	require.Contains(t, problem, "lab")
	asked, err := w.service(nil).Ask(t.Context(), "lab", webhook.Event{Repo: path, Kind: webhook.Labelled, Subject: forge.OnIssue(1)})
	require.NoError(t, err)
	require.True(t, asked)
	w.looked(t, 20, "hub-issue")
	n, _ = w.looks(t, "lab-issue")
	require.Equal(t, int64(1), n, "a webhook does not shorten the time that the forge asked for")
}

func TestATriggerThatFailsOrHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.on("hub")
	w.hub.Repository("team/hangs")
	for i := range 5 {
		w.config.Triggers[fmt.Sprintf("gone-%d", i)] = config.Trigger{On: config.OnIssue, Forge: "hub", Repository: fmt.Sprintf("team/gone-%d", i), Label: "x"}
		w.config.Triggers[fmt.Sprintf("hangs-%d", i)] = config.Trigger{On: config.OnIssue, Forge: "hub", Repository: "team/hangs", Label: "x"}
	}
	w.faults["hub"].Add(forgetest.Fault{Path: "team/hangs", Hang: true, Times: 1000})
	serve(t, w.service(nil))
	w.began(t, "hangs-4", "gone-4")
	w.repos["hub"].OpenIssue("Add dark mode", "", "rgpt")
	await.Until(t, "the issue fires", func() bool { return len(w.firings(t)) == 1 })
	await.Until(t, "the problem is noted", func() bool {
		_, problem := w.looks(t, "gone-0")
		return strings.Contains(problem, "team/gone-0")
	})
}

func TestWithoutPollingOnlyWebhooksMakeATriggerLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.on("hub")
	settings := w.config.Forges["hub"]
	settings.Poll = 0
	w.config.Forges["hub"] = settings
	s := w.service(nil)
	for _, e := range []webhook.Event{
		{Repo: "team/other", Kind: webhook.Labelled, Subject: forge.OnIssue(1)}, {Repo: path, Kind: webhook.Labelled, Subject: forge.OnPullRequest(1)},
		{Repo: path, Kind: webhook.Comment, Subject: forge.OnPullRequest(1)}, {Repo: path, Kind: webhook.Closed, Subject: forge.OnIssue(1)},
		{Repo: path, Kind: webhook.Check, Check: forge.Check{State: forge.CheckSuccess}}, {Repo: path, Kind: webhook.Merged, Subject: forge.OnPullRequest(1)},
	} {
		asked, err := s.Ask(t.Context(), "hub", e)
		require.NoError(t, err)
		require.False(t, asked, "%+v", e)
	}
	serve(t, s)
	await.Until(t, "the look ends", func() bool {
		found := 0
		storetest.Query(t, w.URL, func(ctx context.Context, conn *pgx.Conn) {
			require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM orchestrator_triggers WHERE next_at = 'infinity'").Scan(&found))
		})
		return found >= 2 // the branch does not exist, so that the look at its checks fails
	})
	w.repos["hub"].OpenIssue("Add dark mode", "", "rgpt")
	asked, err := s.Ask(t.Context(), "hub", webhook.Event{Repo: path, Kind: webhook.Opened, Subject: forge.OnIssue(1)})
	require.NoError(t, err)
	require.True(t, asked)
	await.Until(t, "the issue fires", func() bool { return len(w.firings(t)) == 1 })
	n, _ := w.looks(t, "hub-issue")
	require.Equal(t, int64(2), n)
}

func TestAnIssueThatWasLabelledBeforeTheTriggerExistedCountsAsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.on("hub")
	w.hub.Clock(time.Now().AddDate(-1, 0, 0))
	repo := w.repos["hub"]
	number := repo.OpenIssue("Old", "", "rgpt")
	repo.Say(forge.OnIssue(number), "@rgpt of last year")
	stop := serve(t, w.service(nil))
	w.looked(t, 3, "hub-issue", "hub-comment")
	require.Equal(t, []string{"hub-issue issue:1"}, w.keys(t))
	require.WithinDuration(t, time.Now(), w.firings(t)[0].at, time.Minute)
	stop()

	// What happens while no server runs has the time at which it happened.
	then := time.Now().Add(-30 * time.Minute)
	w.hub.Clock(then)
	next := repo.OpenIssue("Meanwhile", "", "rgpt")
	repo.Say(forge.OnIssue(next), "@rgpt meanwhile")
	serve(t, w.service(nil))
	await.Until(t, "both fire", func() bool { return len(w.firings(t)) == 3 })
	for _, f := range w.firings(t) {
		if f.delivery != "issue:1" {
			require.WithinDuration(t, then, f.at, time.Minute)
		}
	}
}

func TestAServerThatStopsLeavesNoLookBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.on("hub")
	w.repos["hub"].Push("main", map[string]string{"a": "a"})
	for range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.service(nil).Run(ctx); close(done) }()
		w.looked(t, 1, "hub-issue")
		cancel()
		<-done
		storetest.Query(t, w.URL, func(ctx context.Context, conn *pgx.Conn) {
			var n int
			require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM orchestrator_triggers WHERE looking").Scan(&n))
			require.Zero(t, n)
		})
	}
}

func TestATriggerWithAnotherLabelReadsEverythingAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.on("hub")
	w.hub.Clock(time.Now().AddDate(-1, 0, 0))
	w.repos["hub"].OpenIssue("Old", "", "other")
	stop := serve(t, w.service(nil))
	w.looked(t, 2, "hub-issue")
	require.Empty(t, w.firings(t))
	stop()
	changed := w.config.Triggers["hub-issue"]
	changed.Label = "other"
	w.config.Triggers["hub-issue"] = changed
	serve(t, w.service(nil))
	await.Until(t, "the issue fires", func() bool { return len(w.firings(t)) == 1 })
}

func TestNumbersOfAnotherRepositoryAreNewToATrigger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.on("hub")
	other := w.hub.Repository("team/other")
	for _, repo := range []*forgetest.Repository{w.repos["hub"], other, w.repos["lab"]} {
		commit := repo.Push("main", map[string]string{"a": "a"})
		on := forge.OnIssue(repo.OpenIssue("Add dark mode", "", "rgpt"))
		repo.Say(on, "@rgpt please")
		repo.Job(commit, "unit", forge.CheckFailure, "")
	}
	names := []string{"hub-check", "hub-comment", "hub-issue"}
	total := 0
	at := func(forgeName, repository string, more int) {
		t.Helper()
		for _, name := range names {
			changed := w.config.Triggers[name]
			changed.Forge, changed.Repository = forgeName, repository
			w.config.Triggers[name] = changed
		}
		stop := serve(t, w.service(nil))
		defer stop()
		total += more
		await.Until(t, fmt.Sprintf("%d deliveries with %s of %s", total, repository, forgeName), func() bool { return len(w.firings(t)) >= total })
		w.looked(t, 10, names...)
		require.Len(t, w.firings(t), total, "%v", w.keys(t))
	}
	at("hub", path, 3)
	at("hub", path, 0)
	at("hub", "Team/App", 0)
	at("hub", "team/other", 3)
	at("lab", path, 3)
	at("hub", path, 0)
}
