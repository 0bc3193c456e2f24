package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/test/gitea"
)

// roleForge is the role of the forge, which is no part of a stack.
const roleForge devstack.Role = "gitea"

// victims are killed in turn.
func victims() []devstack.Role {
	return []devstack.Role{devstack.RoleWorker, devstack.RoleServer, devstack.RoleTemporal, roleForge}
}

// carryPlace is where a process can be killed: at a request to a proxy, or when a row says something.
type carryPlace struct {
	what  string
	proxy *gitea.Proxy
	match func(*http.Request) bool
	row   func(t *testing.T) bool // instead of a request
}

// carryMoment is a moment of a step at which a process is killed. It occurs at each of its places in every
// such step; a seed draws one of them.
type carryMoment []carryPlace

// carryKills is an issue on its way to a merged pull request, while processes are killed.
type carryKills struct {
	*carried
	hooks, model *gitea.Proxy
	random       *rand.Rand
	seed         int
	arrivals     chan *carryStrike
	moments      int // so far
	hit          map[devstack.Role]int
}

// TestKillingAnyProcessAtAnyStepOfAPullRequestLosesAndDoublesNothing kills the worker, the server, Temporal and
// the forge in turn while an issue becomes a merged pull request. Each kill is at a moment that a request
// or a row determines: a request that the killed process sent, received or waited for has just arrived, or was just
// carried out, but not answered. A seed draws which one, and which process is killed first. RGPT_KILLS sets the
// least number of kills; with RGPT_STRESS=full, each process is killed at each moment.
func TestKillingAnyProcessAtAnyStepOfAPullRequestLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	all := map[devstack.Role]int{}
	for seed := range carriedTimes(t) {
		k := &carryKills{seed: seed, hit: map[devstack.Role]int{}}
		if !t.Run(fmt.Sprintf("seed %d", seed), k.carry) {
			return
		}
		for role, n := range k.hit {
			all[role] += n
		}
	}
	t.Logf("kills: %v", all)
}

// carriedMoments is the number of moments of one way to a merge.
const carriedMoments = 21

// momentTime is how long a moment may take to come. Servers that died keep their leases of events for two
// minutes.
const momentTime = 3 * time.Minute

// carriedTimes returns how many issues become merged pull requests.
func carriedTimes(t *testing.T) int {
	t.Helper()
	if os.Getenv("RGPT_STRESS") == "full" {
		return len(victims())
	}
	text := os.Getenv(killsEnv)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, killsEnv)
	return (n + carriedMoments - 1) / carriedMoments
}

func (k *carryKills) carry(t *testing.T) {
	server := gitea.Start(t)
	k.hooks, k.model = gitea.NewProxy(t), gitea.NewProxy(t)
	k.random, k.arrivals = rand.New(rand.NewPCG(uint64(k.seed), 19)), make(chan *carryStrike)
	k.carried = newCarried(t, server, "60ms", ", webhook_secret_env: FORGE_HOOK",
		fmt.Sprintf("models: {default: {provider: main, model: large}, providers: {main: {kind: compatible, base_url: %q}}}\n", k.model.URL+"/v1"), "FORGE_HOOK=a-secret")
	k.model.Forward(t, strings.TrimSuffix(k.State(t).Model, "/v1"))
	k.hooks.Forward(t, k.State(t).Server)
	server.Webhook(t, k.path, k.hooks.URL+"/hooks/work", "a-secret", "push", "pull_request", "pull_request_comment", "pull_request_review_approved",
		"pull_request_review_comment", "issues", "issue_label", "issue_comment", "status")
	for i, s := range k.steps() {
		began := time.Now()
		strikes := k.arm(t, k.momentsOf(i)...)
		s.do(t)
		for range strikes {
			k.next(t)
		}
		s.follows(t)
		t.Logf("%s: %s", s.name, time.Since(began).Round(time.Millisecond))
	}
	require.Equal(t, carriedMoments, k.moments)
	k.over(t)
	k.CheckSandboxes(t)
}

// momentsOf returns the moments of a step at which processes are killed, in the order in which they occur.
func (k *carryKills) momentsOf(step int) []carryMoment {
	push := carryMoment{k.gitRequest("a push to the forge", http.MethodPost, "/git-receive-pack")}
	reviews := k.apiRequest("a look at the reviews", http.MethodGet, "/reviews")
	return [][]carryMoment{
		{
			{k.webhook("the webhook of the label", "issue_label")},
			{carryPlace{what: "the run is created", row: k.creating}},
			{k.modelRequest("planner"), k.modelRequest("builder")},
			push,
			{k.apiRequest("the pull request is opened", http.MethodPost, "/pulls")},
			{
				k.apiRequest("labels are set", http.MethodPost, fmt.Sprintf("/issues/%d/labels", k.issue+1)), // the next number is the pull request's
				k.apiRequest("a status is set", http.MethodPost, "/statuses/"),
				k.apiRequest("the pull request is announced", http.MethodPost, fmt.Sprintf("/issues/%d/comments", k.issue)),
			},
		},
		{
			{k.webhook("the webhook of the comment", "pull_request_review_comment"), reviews},
			{k.modelRequest("repair")},
			push,
			{k.apiRequest("the comment is answered", http.MethodPost, "/reviews")},
		},
		{
			{k.webhook("the webhook of the push", "push"), k.gitRequest("the run fetches the push", http.MethodPost, "/git-upload-pack")},
		},
		{
			{k.webhook("the webhook of the check", "status"), k.apiRequest("a look at the checks", http.MethodGet, "/statuses")},
			{k.modelRequest("repair")},
			push,
		},
		{
			{k.webhook("the webhook of the base", "push"), k.gitRequest("the run fetches the base", http.MethodPost, "/git-upload-pack")},
			{k.modelRequest("repair")},
			push,
		},
		{
			{k.webhook("the webhook of the approval", "pull_request_review_approved"), reviews},
			push,
		},
		{
			{k.apiRequest("the pull request is merged", http.MethodPost, "/merge")},
			{k.apiRequest("a branch is removed", http.MethodDelete, "/branches/")},
		},
	}[step]
}

func (k *carryKills) webhook(what, eventType string) carryPlace {
	return carryPlace{what: what, proxy: k.hooks, match: func(r *http.Request) bool { return r.Header.Get("X-Gitea-Event-Type") == eventType }}
}

func (k *carryKills) modelRequest(agent string) carryPlace {
	return carryPlace{what: "the model call of the " + agent, proxy: k.model, match: func(r *http.Request) bool {
		return r.Method == http.MethodPost && r.Header.Get("X-RGPT-Agent") == agent
	}}
}

func (k *carryKills) apiRequest(what, method, path string) carryPlace {
	return k.request(what, k.lossy, method, path)
}

func (k *carryKills) gitRequest(what, method, path string) carryPlace {
	return k.request(what, k.git, method, path)
}

// request is a request whose path contains, or ends with, a path.
func (k *carryKills) request(what string, proxy *gitea.Proxy, method, path string) carryPlace {
	return carryPlace{what: what, proxy: proxy, match: func(r *http.Request) bool {
		return r.Method == method && (strings.HasSuffix(r.URL.Path, path) || strings.HasSuffix(path, "/") && strings.Contains(r.URL.Path, path))
	}}
}

// creating reports whether a server has begun to create the run.
func (k *carryKills) creating(t *testing.T) bool {
	all, err := triggers.List(t.Context(), k.Store(t), triggers.Filter{})
	return err == nil && len(all) == 1 && all[0].Attempts > 0
}

// carryStrike is a kill that is due.
type carryStrike struct {
	what   string
	victim devstack.Role
	begin  chan struct{} // closed when the request may go on
	struck chan struct{} // closed when it has come as far as it has to
	killed chan struct{} // closed when the process is killed
}

// arm lets the process whose turn it is be killed at each of the moments, and returns how many they are.
func (k *carryKills) arm(t *testing.T, moments ...carryMoment) int {
	t.Helper()
	roles := victims()
	for _, m := range moments {
		p, after := m[k.random.IntN(len(m))], k.random.IntN(2) == 1
		s := &carryStrike{victim: roles[(k.moments+k.seed)%len(roles)], begin: make(chan struct{}), struck: make(chan struct{}), killed: make(chan struct{})}
		k.moments++
		if p.row != nil {
			s.what = p.what
			go k.watch(t, p.row, s)
			continue
		}
		s.what = p.what + ", before it is carried out"
		if after {
			s.what = p.what + ", after it was carried out"
		}
		lose := s.victim == roleForge && (p.proxy == k.lossy || p.proxy == k.git)
		p.proxy.Meet(k.meeting(t, p.match, after, lose, s))
	}
	return len(moments)
}

// meeting is the request at which a process is killed: it waits for the kill. If the killed process is the one
// that answers, its answer is lost.
func (k *carryKills) meeting(t *testing.T, match func(*http.Request) bool, after, lose bool, s *carryStrike) *gitea.Meeting {
	strike := func() {
		close(s.struck)
		k.within(t, s.killed)
	}
	m := &gitea.Meeting{Match: match, Before: func() {
		select {
		case k.arrivals <- s:
			k.within(t, s.begin)
		case <-t.Context().Done():
		}
		if !after {
			strike()
		}
	}}
	if after {
		m.After = func() bool {
			strike()
			return lose
		}
	}
	return m
}

// within waits for a channel until the test ends.
func (k *carryKills) within(t *testing.T, c chan struct{}) {
	select {
	case <-c:
	case <-t.Context().Done():
	}
}

// watch is a kill when a row says something.
func (k *carryKills) watch(t *testing.T, row func(*testing.T) bool, s *carryStrike) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !row(t) {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			return
		}
	}
	select {
	case k.arrivals <- s:
		close(s.struck)
	case <-t.Context().Done():
	}
}

// next kills the next process whose moment has come, and starts it again.
func (k *carryKills) next(t *testing.T) {
	t.Helper()
	var s *carryStrike
	select {
	case s = <-k.arrivals:
	case <-time.After(momentTime):
		runs, err := k.Store(t).ListRuns(t.Context(), store.Filter{})
		require.FailNow(t, "a moment did not come", "%+v %v", runs, err)
	}
	close(s.begin)
	select {
	case <-s.struck:
	case <-time.After(momentTime):
		require.FailNow(t, "a request was not carried out", s.what)
	}
	began := time.Now()
	if s.victim == roleForge {
		k.forge.Kill(t)
	} else {
		k.Kill(t, s.victim)
	}
	close(s.killed)
	if s.victim == roleForge {
		k.forge.Restart(t)
	} else {
		k.Up(t)
	}
	k.hit[s.victim]++
	t.Logf("killed %s: %s (back after %s)", s.victim, s.what, time.Since(began).Round(time.Millisecond))
}
