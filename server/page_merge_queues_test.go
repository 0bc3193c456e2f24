package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
)

// queue stores a merge queue with a pull request in each state, whose every text is the given one.
func (b *fixture) queue(t *testing.T, text string, paused bool) {
	t.Helper()
	save := contract.QueueSave{Queue: contract.QueueRef{Forge: "work", Repo: "team/app", Base: "main"}, Version: 9, First: true, Runs: 2, Decided: 5}
	for i, state := range []contract.QueueState{contract.QueueWaiting, contract.QueueTesting, contract.QueueMerging, contract.QueueMerged, contract.QueueReturned} {
		n := int64(i + 1)
		save.Entries = append(save.Entries, contract.QueueEntry{
			Key: "k" + string(state), Number: n, Title: text, URL: "https://git.example.com/team/app/pulls/1", AddedBy: text, AddedAt: time.Now(), Place: n, State: state, Reason: text, Version: n,
		})
	}
	if paused {
		save.Paused = &contract.QueuePaused{By: text, Reason: text, At: time.Now()}
	}
	_, err := mergequeues.Save(t.Context(), b.Store, save)
	require.NoError(t, err)
}

func TestThePageOfMergeQueuesShowsThemWithTheirPullRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, text := b.page(t, "/merge-queues")
	require.Contains(t, text, "rgpt queue add")
	b.queue(t, "Add dark mode", true)
	page, text := b.page(t, "/merge-queues")
	for _, want := range []string{"main of team/app on work", "Waiting", "Testing", "Merging", "Merged", "Returned", "Paused by Add dark mode", "2 check runs for 5 pull requests"} {
		require.Contains(t, text, want)
	}
	takes := b.requests(t)
	var names []string
	for n := range page.Descendants() {
		if attribute(n, "data-command") == "" {
			continue
		}
		names = append(names, attribute(n, "data-command"))
		body := map[string]any{"by": "ann"}
		if raw := attribute(n, "data-body"); raw != "" {
			require.NoError(t, json.Unmarshal([]byte(raw), &body))
		} else {
			body["pull_request"] = "https://git.example.com/team/app/pulls/1" // the form's field
		}
		if has(n, "data-reason") {
			body["reason"] = "because"
		}
		require.NoError(t, takes.takes(http.MethodPost, attribute(n, "data-href"), 0, body))
		// Without forges, each one is refused for that reason: it reached its queue's commands.
		raw, err := json.Marshal(body)
		require.NoError(t, err)
		w := b.send(t, http.MethodPost, attribute(n, "data-href"), string(raw))
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
		require.Contains(t, w.Body.String(), "forge")
	}
	slices.Sort(names)
	require.Equal(t, []string{"add", "remove", "remove", "remove", "resume", "skip", "skip", "skip"}, names)
}

func TestNoTextOfAMergeQueueBecomesPartOfItsPage(t *testing.T) {
	t.Parallel()
	view := func(text string) (string, string) {
		b := setup(t)
		b.queue(t, text, true)
		page, said := b.page(t, "/merge-queues")
		for n := range page.Descendants() {
			for i, a := range n.Attr { // the address of the forge, which is not the server's
				if a.Key == "href" && strings.HasPrefix(a.Val, "https://git.example.com/") {
					n.Attr[i].Val = "/forge"
				}
			}
		}
		return skeleton(t, page, text), said
	}
	want, _ := view("harmless")
	for _, text := range injections {
		got, said := view(text)
		requireSame(t, want, got, "the page of merge queues with "+text)
		require.Contains(t, said, text, "it is shown, as text")
	}
}
