package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

const testSecret = "a secret"

// sign returns headers with which a forge of a kind sends a body.
func sign(kind forge.Kind, event string, body []byte, secret string) http.Header {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	sum := hex.EncodeToString(mac.Sum(nil))
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	switch kind {
	case forge.GitHub:
		h.Set("X-GitHub-Event", event)
		h.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
		h.Set("X-Hub-Signature-256", "sha256="+sum)
	case forge.GitLab:
		h.Set("X-Gitlab-Event", event)
		h.Set("X-Gitlab-Event-UUID", "13792a34-cac6-4fda-95a8-c58e00a3954e")
		h.Set("X-Gitlab-Token", secret)
	default:
		h.Set("X-Gitea-Event", event)
		h.Set("X-Gitea-Delivery", "f6266f16-1bf3-46a5-9ea4-602e06ead473")
		h.Set("X-Gitea-Signature", sum)
	}
	return h
}

// recorded returns a delivery of a real Gitea; see test/gitea.
func recorded(t testing.TB, file string) (http.Header, []byte) {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var d struct {
		Header map[string]string
		Body   json.RawMessage
	}
	require.NoError(t, json.Unmarshal(raw, &d))
	h := sign(forge.Gitea, d.Header["X-Gitea-Event"], d.Body, testSecret)
	for name, value := range d.Header {
		h.Set(name, value)
	}
	return h, d.Body
}

const recordings = "../gitea/testdata/webhooks"

func TestRecordedDeliveriesOfGiteaAreUnderstood(t *testing.T) {
	t.Parallel()
	pull, issue := forge.OnPullRequest(1), forge.OnIssue(2)
	for name, want := range map[string]Event{
		"push":                         {Kind: Pushed, Branch: "rgpt/run-1", Sender: "owner"},
		"create":                       {Kind: Ignored},
		"pull_request_opened":          {Kind: Opened, Subject: pull, Sender: "bot"},
		"pull_request_labelled":        {Kind: Labelled, Subject: pull, Sender: "owner", Labels: []string{"rgpt"}},
		"pull_request_synchronised":    {Kind: Updated, Subject: pull, Sender: "owner", Labels: []string{"rgpt"}},
		"pull_request_closed":          {Kind: Closed, Subject: pull, Sender: "bot", Labels: []string{"rgpt"}},
		"pull_request_reopened":        {Kind: Reopened, Subject: pull, Sender: "bot", Labels: []string{"rgpt"}},
		"pull_request_merged":          {Kind: Merged, Subject: pull, Sender: "bot", Labels: []string{"rgpt"}},
		"pull_request_comment":         {Kind: Comment, Subject: pull, Sender: "owner", Labels: []string{"rgpt"}, Comment: forge.Comment{Author: "owner", Body: "Why?"}},
		"pull_request_review_comment":  {Kind: Reviewed, Subject: pull, Sender: "owner", Labels: []string{"rgpt"}, Comment: forge.Comment{Author: "owner", Body: "Look here"}},
		"pull_request_review_approved": {Kind: Reviewed, Subject: pull, Sender: "owner", Labels: []string{"rgpt"}, Comment: forge.Comment{Author: "owner", Body: "APPROVED"}},
		"pull_request_review_rejected": {Kind: Reviewed, Subject: pull, Sender: "owner", Labels: []string{"rgpt"}, Comment: forge.Comment{Author: "owner", Body: "REQUEST_CHANGES"}},
		"issue_opened":                 {Kind: Opened, Subject: issue, Sender: "owner"},
		"issue_labelled":               {Kind: Labelled, Subject: issue, Sender: "owner", Labels: []string{"rgpt"}},
		"issue_comment":                {Kind: Comment, Subject: issue, Sender: "owner", Labels: []string{"rgpt"}, Comment: forge.Comment{Author: "owner", Body: "@rgpt do it"}},
		"issue_closed":                 {Kind: Closed, Subject: issue, Sender: "owner", Labels: []string{"rgpt"}},
		"issue_reopened":               {Kind: Reopened, Subject: issue, Sender: "owner", Labels: []string{"rgpt"}},
		"status":                       {Kind: Check, Sender: "bot", Check: forge.Check{Name: "ci/build", State: forge.CheckFailure, Description: "2 failed", URL: "https://ci.example.com/1"}},
	} {
		header, body := recorded(t, filepath.Join(recordings, name+".json"))
		got, err := Parse(forge.Gitea, header, body, testSecret)
		require.NoError(t, err, name)
		require.Equal(t, header.Get("X-Gitea-Delivery"), got.Delivery, name)
		if want.Kind != Ignored {
			require.Equal(t, "owner/project", got.Repo, name)
		}
		if want.Kind == Pushed || want.Kind == Check {
			require.Len(t, got.Commit, 40, name)
		}
		if want.Kind == Comment {
			require.NotEmpty(t, got.Comment.ID, name)
			require.Contains(t, got.Comment.URL, "#issuecomment-"+got.Comment.ID, name)
			require.False(t, got.Comment.CreatedAt.IsZero(), name)
			got.Comment = forge.Comment{Author: got.Comment.Author, Body: got.Comment.Body}
		}
		got.Delivery, got.Repo, got.Commit = "", "", ""
		require.Equal(t, want, got, name)
	}
}

const (
	sha1     = "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c"
	noCommit = "0000000000000000000000000000000000000000"
)

func TestDeliveriesOfGitHubAreUnderstood(t *testing.T) {
	t.Parallel()
	const repo = `"repository":{"id":1,"full_name":"acme/shop"},"sender":{"login":"ann","id":2,"type":"User"}`
	const pull = `"pull_request":{"number":7,"state":"open","merged":false,"head":{"ref":"x","sha":"` + sha1 + `"},"labels":[{"name":"rgpt"}]}`
	const issue = `"issue":{"number":5,"labels":[],"state":"open"}`
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	base := Event{Repo: "acme/shop", Sender: "ann"}
	onPull, onIssue := base, base
	onPull.Subject, onPull.Commit, onPull.Labels = forge.OnPullRequest(7), sha1, []string{"rgpt"}
	onIssue.Subject = forge.OnIssue(5)
	with := func(e Event, kind Kind, change func(*Event)) Event {
		e.Kind = kind
		if change != nil {
			change(&e)
		}
		return e
	}
	for _, one := range []struct {
		event, body string
		want        Event
	}{
		{"ping", `{"zen":"Keep it simple."}`, Event{Kind: Ignored}},
		{"push", `{"ref":"refs/heads/a/b","after":"` + sha1 + `",` + repo + `}`, with(base, Pushed, func(e *Event) { e.Branch, e.Commit = "a/b", sha1 })},
		{"push", `{"ref":"refs/heads/a/b","after":"` + noCommit + `",` + repo + `}`, Event{Kind: Ignored}},
		{"push", `{"ref":"refs/tags/v1","after":"` + sha1 + `",` + repo + `}`, Event{Kind: Ignored}},
		{"pull_request", `{"action":"opened","number":7,` + pull + `,` + repo + `}`, with(onPull, Opened, nil)},
		{"pull_request", `{"action":"synchronize","number":7,` + pull + `,` + repo + `}`, with(onPull, Updated, nil)},
		{"pull_request", `{"action":"labeled","label":{"name":"rgpt"},` + pull + `,` + repo + `}`, with(onPull, Labelled, func(e *Event) { e.Label = "rgpt" })},
		{"pull_request", `{"action":"unlabeled","label":{"name":"other"},` + pull + `,` + repo + `}`, with(onPull, Labelled, nil)},
		{"pull_request", `{"action":"closed",` + strings.Replace(pull, `"merged":false`, `"merged":true`, 1) + `,` + repo + `}`, with(onPull, Merged, nil)},
		{"pull_request", `{"action":"closed",` + pull + `,` + repo + `}`, with(onPull, Closed, nil)},
		{"pull_request", `{"action":"assigned",` + pull + `,` + repo + `}`, Event{Kind: Ignored}},
		{"issues", `{"action":"opened",` + issue + `,` + repo + `}`, with(onIssue, Opened, nil)},
		{"issues", `{"action":"labeled","label":{"name":"rgpt"},"issue":{"number":5,"labels":[{"name":"rgpt"}]},` + repo + `}`, with(onIssue, Labelled, func(e *Event) { e.Label, e.Labels = "rgpt", []string{"rgpt"} })},
		{
			"issue_comment", `{"action":"created",` + issue + `,"comment":{"id":99,"body":"Hi","user":{"login":"dependabot[bot]","type":"Bot"},"html_url":"https://github.com/acme/shop/issues/5#issuecomment-99","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"},` + repo + `}`,
			with(onIssue, Comment, func(e *Event) {
				e.Comment = forge.Comment{ID: "99", Author: "dependabot[bot]", Bot: true, Body: "Hi", URL: "https://github.com/acme/shop/issues/5#issuecomment-99", CreatedAt: at, UpdatedAt: at}
			}),
		},
		{"issue_comment", `{"action":"created","issue":{"number":7,"labels":[],"pull_request":{"url":"x"}},"comment":{"id":98,"body":"Hi","user":{"login":"ann"}},` + repo + `}`, with(base, Comment, func(e *Event) {
			e.Subject, e.Comment = forge.OnPullRequest(7), forge.Comment{ID: "98", Author: "ann", Body: "Hi"}
		})},
		{"issue_comment", `{"action":"edited",` + issue + `,"comment":{"id":99},` + repo + `}`, Event{Kind: Ignored}},
		{"pull_request_review_comment", `{"action":"created",` + pull + `,"comment":{"id":3,"body":"No","path":"a.go","line":null,"commit_id":"` + sha1 + `","in_reply_to_id":2,"user":{"login":"ann"}},` + repo + `}`, with(onPull, Comment, func(e *Event) {
			e.Comment = forge.Comment{ID: "3", Thread: "2", Author: "ann", Body: "No", Path: "a.go", Commit: sha1}
		})},
		{"pull_request_review", `{"action":"submitted",` + pull + `,"review":{"id":4,"body":null,"user":{"login":"ben"},"commit_id":"` + sha1 + `"},` + repo + `}`, with(onPull, Reviewed, func(e *Event) {
			e.Comment = forge.Comment{Author: "ben", Commit: sha1}
		})},
		{"status", `{"id":11,"sha":"` + sha1 + `","state":"failure","context":"ci","description":null,"target_url":"https://ci.example.com",` + repo + `}`, with(base, Check, func(e *Event) {
			e.Commit, e.Check = sha1, forge.Check{ID: "11", Name: "ci", State: forge.CheckFailure, URL: "https://ci.example.com"}
		})},
		{"check_run", `{"action":"completed","check_run":{"id":12,"name":"build","head_sha":"` + sha1 + `","status":"completed","conclusion":"timed_out","output":{"title":null}},` + repo + `}`, with(base, Check, func(e *Event) {
			e.Commit, e.Check = sha1, forge.Check{ID: "12", Name: "build", State: forge.CheckFailure}
		})},
		{"check_run", `{"action":"created","check_run":{"id":12,"name":"build","head_sha":"` + sha1 + `","status":"queued","conclusion":null},` + repo + `}`, with(base, Check, func(e *Event) {
			e.Commit, e.Check = sha1, forge.Check{ID: "12", Name: "build", State: forge.CheckPending}
		})},
	} {
		got, err := Parse(forge.GitHub, sign(forge.GitHub, one.event, []byte(one.body), testSecret), []byte(one.body), testSecret)
		require.NoError(t, err, one.body)
		require.Equal(t, "72d3162e-cc78-11e3-81ab-4c9367dc0958", got.Delivery)
		got.Delivery = ""
		require.Equal(t, one.want, got, one.body)
	}
}

func TestDeliveriesOfGitLabAreUnderstood(t *testing.T) {
	t.Parallel()
	const onField = "noteable_type" //nolint:misspell // GitLab's word
	const repo = `"project":{"id":1,"path_with_namespace":"acme/web/shop"},"user":{"username":"ann"}`
	base := Event{Repo: "acme/web/shop", Sender: "ann"}
	with := func(kind Kind, change func(*Event)) Event {
		e := base
		e.Kind = kind
		change(&e)
		return e
	}
	request := func(action, more string) string {
		return `{"object_kind":"merge_request",` + repo + `,"labels":[{"title":"rgpt"}],"object_attributes":{"iid":7,"action":"` + action + `","last_commit":{"id":"` + sha1 + `"}` + more + `}`
	}
	onRequest := func(e *Event) {
		e.Subject, e.Commit, e.Labels = forge.OnPullRequest(7), sha1, []string{"rgpt"}
	}
	for _, one := range []struct {
		body string
		want Event
	}{
		{`{"object_kind":"wiki_page","labels":"none"}`, Event{Kind: Ignored}},
		{`{"object_kind":"push","ref":"refs/heads/x","after":"` + sha1 + `","user_username":"ann","project":{"path_with_namespace":"acme/web/shop"}}`, with(Pushed, func(e *Event) { e.Branch, e.Commit = "x", sha1 })},
		{request("open", "}"), with(Opened, onRequest)},
		{request("merge", "}"), with(Merged, onRequest)},
		{request("close", "}"), with(Closed, onRequest)},
		{request("reopen", "}"), with(Reopened, onRequest)},
		{request("update", `,"oldrev":"`+sha1+`"}`), with(Updated, onRequest)},
		{request("update", "}"), Event{Kind: Ignored}},
		{request("approved", "}"), with(Reviewed, func(e *Event) { onRequest(e); e.Comment.Author = "ann" })},
		{request("update", `},"changes":{"labels":{"previous":[{"title":"a"}],"current":[{"title":"a"},{"title":"rgpt"}]}}`), with(Labelled, func(e *Event) { onRequest(e); e.Label = "rgpt" })},
		{`{"object_kind":"issue",` + repo + `,"labels":[],"object_attributes":{"iid":5,"action":"open"}}`, with(Opened, func(e *Event) { e.Subject = forge.OnIssue(5) })},
		{
			`{"object_kind":"note",` + repo + `,"object_attributes":{"id":9,"note":"Hi","` + onField + `":"Issue","discussion_id":"d1","url":"https://gitlab.com/x","created_at":"2026-01-02 03:04:05 UTC","updated_at":"2026-01-02 03:04:05 UTC","position":null},"issue":{"iid":5,"labels":[{"title":"rgpt"}]}}`,
			with(Comment, func(e *Event) {
				at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
				e.Subject, e.Labels = forge.OnIssue(5), []string{"rgpt"}
				e.Comment = forge.Comment{ID: "9", Thread: "d1", Author: "ann", Body: "Hi", URL: "https://gitlab.com/x", CreatedAt: at, UpdatedAt: at}
			}),
		},
		{
			`{"object_kind":"note",` + repo + `,"object_attributes":{"id":9,"action":"create","note":"No","` + onField + `":"MergeRequest","discussion_id":"d2","position":{"new_path":"a.go","new_line":3,"head_sha":"` + sha1 + `"}},"merge_request":{"iid":7,"last_commit":{"id":"` + sha1 + `"}}}`,
			with(Comment, func(e *Event) {
				e.Subject, e.Commit = forge.OnPullRequest(7), sha1
				e.Comment = forge.Comment{ID: "9", Thread: "d2", Author: "ann", Body: "No", Path: "a.go", Line: 3, Commit: sha1}
			}),
		},
		{`{"object_kind":"note",` + repo + `,"object_attributes":{"id":9,"note":"changed","` + onField + `":"Issue","system":true},"issue":{"iid":5}}`, Event{Kind: Ignored}},
		{`{"object_kind":"build","build_id":31,"build_name":"test","build_status":"failed","sha":"` + sha1 + `",` + repo + `}`, with(Check, func(e *Event) {
			e.Commit, e.Check = sha1, forge.Check{ID: "31", Name: "test", State: forge.CheckFailure}
		})},
	} {
		got, err := Parse(forge.GitLab, sign(forge.GitLab, "", []byte(one.body), testSecret), []byte(one.body), testSecret)
		require.NoError(t, err, one.body)
		require.Equal(t, "13792a34-cac6-4fda-95a8-c58e00a3954e", got.Delivery)
		got.Delivery = ""
		require.Equal(t, one.want, got, one.body)
	}
}

func TestADeliveryThatTheForgeDidNotSignIsRefused(t *testing.T) {
	t.Parallel()
	body := []byte(`{"ref":"refs/heads/x"}`)
	for _, kind := range []forge.Kind{forge.GitHub, forge.GitLab, forge.Gitea} {
		for name, header := range map[string]http.Header{
			"another secret": sign(kind, "push", body, "another"), "an empty secret": sign(kind, "push", body, ""), "none": {"Content-Type": {"application/json"}},
		} {
			_, err := Parse(kind, header, body, testSecret)
			require.True(t, fault.Is(err, contract.CodeUnauthorized), "%s: %s: %v", kind, name, err)
			require.NotContains(t, err.Error(), testSecret)
		}
		_, err := Parse(kind, sign(kind, "push", body, ""), body, "")
		require.True(t, fault.Is(err, contract.CodeInvalidConfig), "without a secret, nothing is accepted: %v", err)
		if kind != forge.GitLab { // it signs nothing
			_, err = Parse(kind, sign(kind, "push", body, testSecret), append([]byte(" "), body...), testSecret)
			require.True(t, fault.Is(err, contract.CodeUnauthorized), "a changed body: %v", err)
		}
	}
	header := sign(forge.Gitea, "push", body, testSecret)
	header.Set("X-Gitea-Signature", "zz"+header.Get("X-Gitea-Signature"))
	_, err := Parse(forge.Gitea, header, body, testSecret)
	require.True(t, fault.Is(err, contract.CodeUnauthorized), "%v", err)
	_, err = Parse("svn", header, body, testSecret)
	require.True(t, fault.Is(err, contract.CodeBadRequest), "%v", err)
}

func TestHostileDeliveriesAreBoundedOrRefused(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"no JSON": "{", "another type": `{"repository":{"full_name":7}}`, "no repository": `{"action":"opened"}`, "an array": `[]`,
		"a repository with a path": `{"action":"opened","repository":{"full_name":"../../etc"}}`,
		"deep":                     strings.Repeat(`{"issue":`, 20_000) + "1" + strings.Repeat("}", 20_000),
		"a time that is none":      `{"action":"created","comment":{"created_at":"yesterday"},"repository":{"full_name":"a/b"}}`,
	} {
		_, err := Parse(forge.Gitea, sign(forge.Gitea, "pull_request", []byte(body), testSecret), []byte(body), testSecret)
		require.True(t, fault.Is(err, contract.CodeBadRequest), "%s: %v", name, err)
		require.Less(t, len(err.Error()), 4000)
	}
	_, err := Parse(forge.Gitea, http.Header{}, make([]byte, MaxBody+1), testSecret)
	require.True(t, fault.Is(err, contract.CodeTooLarge), "%v", err)
	form := []byte("payload=%7B%7D")
	header := sign(forge.GitHub, "push", form, testSecret)
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, err = Parse(forge.GitHub, header, form, testSecret)
	require.ErrorContains(t, err, "choose application/json")

	labels := strings.Repeat(`{"name":"l"},`, 5000) + `{"name":"l"}`
	body := []byte(`{"action":"created","is_pull":true,"repository":{"full_name":"a/b"},"sender":{"login":"x\n\u0000y"},"issue":{"number":1,"labels":[` + labels + `]},
		"comment":{"id":1,"body":"` + strings.Repeat("é", 100_000) + `","commit_id":"HEAD","path":"` + strings.Repeat("p", 5000) + `"}}`)
	header = sign(forge.Gitea, "issue_comment", body, testSecret)
	header.Set("X-Gitea-Delivery", "../../x")
	e, err := Parse(forge.Gitea, header, body, testSecret)
	require.NoError(t, err)
	require.Len(t, e.Delivery, 64, "of the content")
	require.Equal(t, "x  y", e.Sender)
	require.Len(t, e.Labels, maxLabels)
	require.LessOrEqual(t, len(e.Comment.Body), maxText)
	require.LessOrEqual(t, len(e.Comment.Path), maxName)
	require.Empty(t, e.Comment.Commit)
}

func FuzzNoDeliveryPanics(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(recordings, "*.json"))
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		header, body := recorded(f, file)
		f.Add(header.Get("X-Gitea-Event"), bytes.Clone(body))
	}
	f.Fuzz(func(t *testing.T, event string, body []byte) {
		for _, kind := range []forge.Kind{forge.GitHub, forge.GitLab, forge.Gitea} {
			e, err := Parse(kind, sign(kind, event, body, testSecret), body, testSecret)
			if err == nil && e.Kind != Ignored {
				require.NotEmpty(t, e.Repo)
			}
		}
	})
}
