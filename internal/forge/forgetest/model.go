package forgetest

import (
	"cmp"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// User is an account of a forge.
type User struct {
	ID    int64
	Login string
	Token string
	Bot   bool
}

// Repository is a repository of a forge: its code in git, the rest in memory.
type Repository struct {
	Path          string // on the forge
	DefaultBranch string
	ID            int64

	server   *server
	dir      string
	members  map[string]forge.Permission
	labels   []string
	subjects []*subject
	statuses map[string][]*status // by commit
	required []string             // names of checks
}

// subject is an issue or a pull request.
type subject struct {
	forge.Subject
	title, body, author string
	labels              []string
	closed              bool
	created, updated    time.Time
	comments            []*comment

	head, base              string
	draft, merged           bool
	mergeCommit, mergedHead string
	reviewers               []string

	// Of GitLab:
	rebasing   int // how often a rebase is still reported as running
	mergeError string
	versions   []version
}

// comment is a comment, a review's text, or a comment on a line.
type comment struct {
	id, root         int64 // root: of the thread
	author, body     string
	created, updated time.Time
	review, system   bool
	approves         bool // it is a review that approves
	path             string
	line             int
	commit           string
}

// version is a head that a merge request had.
type version struct {
	id                 int64
	head, base, target string
	created            time.Time
}

// status is a status of a commit or, with a log, a check or job.
type status struct {
	id                        int64
	context, description, url string
	state                     forge.CheckState
	job                       bool
	log                       string
	created                   time.Time
}

// server is what the forges in memory have in common.
type server struct {
	*Faults
	tb   testing.TB
	http *httptest.Server
	dir  string

	mu       sync.Mutex
	users    []*User
	repos    []*Repository
	lastID   int64
	now      time.Time
	separate bool           // issues and pull requests are numbered separately
	pageSize int            // maximum of a page
	requests map[string]int // by method and pattern
	same     int            // responses that were confirmed by their ETag
}

// The accounts of every forge in memory.
const (
	// Bot is the account that the tests use.
	Bot = "rgpt"
	// BotToken is its token.
	BotToken = "tok-rgpt-0123456789abcdef"
	// Member may write to every repository.
	Member = "alice"
	// MemberToken is the member's token.
	MemberToken = "tok-alice-0123456789abcdef"
	// Stranger has an account and no rights.
	Stranger = "mallory"
)

// startTime is the time of the first change. It advances by a second with each.
var startTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// start starts a server. The API is what is not git.
func start(tb testing.TB, api http.Handler, s *server) {
	tb.Helper()
	s.Faults, s.tb, s.dir = &Faults{}, tb, tb.TempDir()
	s.now, s.pageSize, s.lastID = startTime, 3, 1000
	s.requests = map[string]int{}
	for _, user := range []*User{{Login: Bot, Token: BotToken, Bot: true}, {Login: Member, Token: MemberToken}, {Login: Stranger, Token: "tok-mallory-0123456789"}} {
		user.ID = s.id()
		s.users = append(s.users, user)
	}
	program, err := backend()
	if err != nil {
		tb.Fatal(err)
	}
	code := &cgi.Handler{Path: program, Env: append(gitEnv(), "GIT_PROJECT_ROOT="+s.dir, "GIT_HTTP_EXPORT_ALL=1")}
	s.http = httptest.NewServer(s.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, ".git/") {
			s.serveGit(code, w, r)
			return
		}
		api.ServeHTTP(w, r)
	})))
	tb.Cleanup(s.http.Close)
}

// serveGit serves a repository to accounts, which use their token as the password.
func (s *server) serveGit(code *cgi.Handler, w http.ResponseWriter, r *http.Request) {
	_, password, _ := r.BasicAuth()
	s.mu.Lock()
	user := s.byToken(password)
	s.mu.Unlock()
	if user == nil {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	with := *code
	with.Env = append(slices.Clone(code.Env), "REMOTE_USER="+user.Login)
	with.ServeHTTP(w, r)
}

// URL returns the address of the forge's start page.
func (s *server) URL() string { return s.http.URL }

// Remote returns the address of a repository for git, without credentials.
func (s *server) Remote(repo string) string { return s.http.URL + "/" + repo + ".git" }

// PageSize sets the maximum number of entries of a page.
func (s *server) PageSize(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = most
}

// Confirmed returns how many responses were confirmed as unchanged.
func (s *server) Confirmed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.same
}

// Repository creates a repository that its member and the bot may write to.
func (s *server) Repository(path string) *Repository {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &Repository{
		Path: path, DefaultBranch: "main", ID: s.id(), server: s, dir: filepath.Join(s.dir, path+".git"),
		members: map[string]forge.Permission{Bot: forge.PermissionWrite, Member: forge.PermissionWrite}, statuses: map[string][]*status{},
	}
	initRepository(s.tb, r.dir, r.DefaultBranch)
	s.repos = append(s.repos, r)
	return r
}

// Push commits files to a branch, which begins at the default branch if it does not exist, and
// returns the commit.
func (r *Repository) Push(branch string, files map[string]string) string {
	r.server.tb.Helper()
	commit, err := commitFiles(r.dir, branch, "refs/heads/"+r.DefaultBranch, files)
	if err != nil {
		r.server.tb.Fatal(err)
	}
	return commit
}

// Dir returns the directory of the bare repository.
func (r *Repository) Dir() string { return r.dir }

// Head returns the commit of a branch, "" if it does not exist.
func (r *Repository) Head(branch string) string {
	commit, err := revision(r.dir, "refs/heads/"+branch)
	if err != nil {
		return ""
	}
	return commit
}

// OpenIssue opens an issue as the member.
func (r *Repository) OpenIssue(title, body string, labels ...string) int64 {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	made := r.open(&subject{title: title, body: body, author: Member})
	r.addLabels(made, labels)
	return made.Number
}

// EditIssue changes the title and the text of an issue, as the member.
func (r *Repository) EditIssue(number int64, title, body string) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if found := r.find(forge.OnIssue(number)); found != nil {
		found.title, found.body, found.updated = title, body, r.server.tick()
	}
}

// Label adds labels to an issue or pull request.
func (r *Repository) Label(on forge.Subject, labels ...string) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if found := r.find(on); found != nil {
		r.addLabels(found, labels)
	}
}

// SayAs adds a comment of an account.
func (r *Repository) SayAs(login string, on forge.Subject, text string) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if found := r.find(on); found != nil {
		r.server.say(found, &comment{author: login, body: text})
	}
}

// Close closes an issue or pull request as the member.
func (r *Repository) Close(on forge.Subject) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if found := r.find(on); found != nil {
		found.closed, found.updated = true, r.server.tick()
	}
}

// Say adds a comment of the member.
func (r *Repository) Say(on forge.Subject, text string) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if found := r.find(on); found != nil {
		r.server.say(found, &comment{author: Member, body: text})
	}
}

// Approve approves the head of a pull request as the member.
func (r *Repository) Approve(number int64) { r.ApproveAs(Member, number, "") }

// Retarget changes the branch into which a pull request is to be merged.
func (r *Repository) Retarget(number int64, base string) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if found := r.find(forge.OnPullRequest(number)); found != nil {
		r.sync(found)
		found.base, found.updated = base, r.server.tick()
		r.sync(found)
	}
}

// Rename changes the title of a pull request, as a person.
func (r *Repository) Rename(number int64, title string) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if found := r.find(forge.OnPullRequest(number)); found != nil {
		found.title, found.updated = title, r.server.tick()
	}
}

// ApproveAs approves the head of a pull request as an account, with a text.
func (r *Repository) ApproveAs(login string, number int64, text string) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if found := r.find(forge.OnPullRequest(number)); found != nil {
		r.sync(found)
		r.server.say(found, &comment{author: login, body: text, review: true, system: r.server.separate, approves: true, commit: r.headOf(found)})
	}
}

// SayOnLine adds a comment of the member on a line of a pull request.
func (r *Repository) SayOnLine(number int64, path string, line int, text string) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if found := r.find(forge.OnPullRequest(number)); found != nil {
		r.server.say(found, &comment{author: Member, body: text, path: path, line: line, commit: r.headOf(found)})
	}
}

// Job reports the last result of a job of the forge's own CI, with its log.
func (r *Repository) Job(commit, name string, state forge.CheckState, log string) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.statuses[commit] = append(r.statuses[commit], &status{id: r.server.id(), context: name, state: state, job: true, log: log, created: r.server.tick()})
}

// Require makes the protection of the default branch require checks.
func (r *Repository) Require(checks ...string) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.required = checks
}

// Clock sets the time of the last change: the next one is a second later.
func (s *server) Clock(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now.UTC().Truncate(time.Second)
}

// id returns a number that was not used before.
func (s *server) id() int64 {
	s.lastID++
	return s.lastID
}

// tick returns the time of a change.
func (s *server) tick() time.Time {
	s.now = s.now.Add(time.Second)
	return s.now
}

func (s *server) byToken(token string) *User {
	for _, user := range s.users {
		if user.Token == token && token != "" {
			return user
		}
	}
	return nil
}

func (s *server) user(login string) *User {
	for _, user := range s.users {
		if strings.EqualFold(user.Login, login) {
			return user
		}
	}
	return nil
}

func (s *server) repoAt(path string) *Repository {
	for _, r := range s.repos {
		if strings.EqualFold(r.Path, path) {
			return r
		}
	}
	return nil
}

// open adds an issue or pull request. GitHub numbers both together, GitLab separately.
func (r *Repository) open(made *subject) *subject {
	made.created = r.server.tick()
	made.updated = made.created
	if made.Number == 0 {
		made.Number = 1
		for _, other := range r.subjects {
			if !r.server.separate || other.PullRequest == made.PullRequest {
				made.Number++
			}
		}
	}
	r.subjects = append(r.subjects, made)
	return made
}

func (r *Repository) find(on forge.Subject) *subject {
	for _, one := range r.subjects {
		if one.Subject == on {
			return one
		}
	}
	return nil
}

// addLabels sets labels, and creates those that the repository does not have.
func (r *Repository) addLabels(on *subject, labels []string) {
	for _, label := range labels {
		if !slices.Contains(r.labels, label) {
			r.labels = append(r.labels, label)
		}
		if !slices.Contains(on.labels, label) {
			on.labels = append(on.labels, label)
		}
	}
	on.updated = r.server.tick()
}

func (s *server) say(on *subject, c *comment) *comment {
	c.id, c.created = s.id(), s.tick()
	c.updated, on.updated = c.created, c.created
	c.root = cmp.Or(c.root, c.id)
	on.comments = append(on.comments, c)
	return c
}

// latest returns the last status of each context of a commit.
func (r *Repository) latest(commit string) []*status {
	var out []*status
	for _, one := range r.statuses[commit] {
		out = slices.DeleteFunc(out, func(other *status) bool { return other.context == one.context })
		out = append(out, one)
	}
	return out
}

// headOf returns the head of a pull request: that at its merge, or the branch's.
func (r *Repository) headOf(p *subject) string {
	if p.merged {
		return p.mergedHead
	}
	head, _ := revision(r.dir, "refs/heads/"+p.head)
	return head
}

// page returns the part of a list that a request asks for, and the number of the next page.
func page[T any](s *server, r *http.Request, list []T) (part []T, next int) {
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	number, _ := strconv.Atoi(r.URL.Query().Get("page"))
	if size < 1 || size > s.pageSize {
		size = s.pageSize
	}
	number = max(number, 1)
	from := min((number-1)*size, len(list))
	to := min(from+size, len(list))
	if to < len(list) {
		next = number + 1
	}
	return list[from:to], next
}

// nextLink returns the Link header of a page.
func nextLink(base string, r *http.Request, next int) string {
	u := *r.URL
	q := u.Query()
	q.Set("page", strconv.Itoa(next))
	u.RawQuery = q.Encode()
	return "<" + base + u.RequestURI() + `>; rel="next"`
}

// SetMember sets what an account may do with the repository.
func (r *Repository) SetMember(login string, permission forge.Permission) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.members[login] = permission
}
