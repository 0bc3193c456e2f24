package forgetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// testFaults tests what a client does if requests fail.
func testFaults(t *testing.T, world func(t *testing.T) World) {
	t.Helper()
	for _, one := range []struct {
		name string
		run  func(*testing.T, World)
	}{
		{"AFailedRequestHasAClass", testFaultClasses},
		{"APullRequestWhoseAnswerWasLostIsFoundAgain", testLostCreate},
		{"AMergeWhoseAnswerWasLostIsFoundAgain", testLostMerge},
		{"WhatWasRemovedMayBeRemovedAgain", testLostRemoval},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			w := world(t)
			require.NotNil(t, w.Faults, "the world breaks no requests")
			one.run(t, w)
		})
	}
}

func testFaultClasses(t *testing.T, w World) {
	pr, head := w.pull(t, "x")
	calls := map[string]func() error{
		"a read": func() error { _, err := w.Service.PullRequest(t.Context(), w.Repo, pr.Number); return err },
		"a list": func() error {
			_, err := w.Service.Comments(t.Context(), w.Repo, forge.OnPullRequest(pr.Number), time.Time{})
			return err
		},
		"a change": func() error {
			return w.Service.SetStatus(t.Context(), w.Repo, head, forge.Status{Context: "c", State: forge.CheckSuccess})
		},
	}
	for _, one := range []struct {
		name  string
		fault Fault
		class contract.Class
		code  contract.Code
		wait  time.Duration
	}{
		{"a rate limit", Fault{Status: 429, Header: map[string]string{"Retry-After": "7"}, Body: `{"message":"Too many requests"}`}, contract.ClassInfra, contract.CodeRateLimited, 7 * time.Second},
		{"a rate limit of GitHub", Fault{Status: 403, Header: map[string]string{"Retry-After": "9", "X-RateLimit-Remaining": "0"}, Body: `{"message":"You have exceeded a secondary rate limit"}`}, contract.ClassInfra, contract.CodeRateLimited, 9 * time.Second},
		{"a bad gateway", Fault{Status: 502, Body: "<html>"}, contract.ClassInfra, contract.CodeUnavailable, 0},
		{"maintenance", Fault{Status: 503, Header: map[string]string{"Retry-After": "5"}}, contract.ClassInfra, contract.CodeUnavailable, 5 * time.Second},
		{"a refusal", Fault{Status: 403, Body: `{"message":"Forbidden"}`}, contract.ClassConfig, contract.CodeUnauthorized, 0},
		{"a broken connection", Fault{AfterEffect: true}, contract.ClassInfra, contract.CodeUnavailable, 0},
		{"a response that breaks off", Fault{Cut: true}, contract.ClassInfra, contract.CodeUnavailable, 0},
		{"no response", Fault{Hang: true}, contract.ClassInfra, contract.CodeTimeout, 0},
	} {
		for name, call := range calls {
			if one.fault.Hang && name != "a read" {
				continue // each takes the whole time-out
			}
			if one.fault.AfterEffect && name != "a change" {
				continue // net/http repeats a request without an effect itself if its connection was used before
			}
			require.NoError(t, call(), "before %s", one.name)
			w.Faults.Add(one.fault)
			met := w.Faults.Met()
			err := call()
			w.Faults.Clear()
			require.Equal(t, met+1, w.Faults.Met(), "%s at %s is not repeated", one.name, name)
			f := fault.Of(err)
			require.NotNil(t, f, "%s at %s", one.name, name)
			require.Equal(t, []any{one.class, one.code}, []any{f.Class, f.Code}, "%s at %s: %s", one.name, name, f.Message)
			var own *fault.Error
			require.ErrorAs(t, err, &own)
			require.Equal(t, one.wait, own.RetryAfter, "%s at %s", one.name, name)
			require.Contains(t, f.Message, w.Repo)
		}
	}
}

func testLostCreate(t *testing.T, w World) {
	w.Push("x", map[string]string{"a": "a\n"})
	opened := forge.NewPullRequest{Head: "x", Base: "main", Title: "t", Draft: true}
	w.Faults.Add(Fault{Method: "POST", AfterEffect: true})
	_, err := w.Service.CreatePullRequest(t.Context(), w.Repo, opened)
	requireFailure(t, err, contract.ClassInfra, contract.CodeUnavailable)
	found, err := w.Service.FindPullRequest(t.Context(), w.Repo, "x", "main")
	require.NoError(t, err)
	require.NotNil(t, found, "the request had its effect")
	again, err := w.Service.CreatePullRequest(t.Context(), w.Repo, opened)
	require.NoError(t, err)
	require.Equal(t, found.Number, again.Number)
	require.True(t, again.Draft)
}

func testLostMerge(t *testing.T, w World) {
	for _, method := range []forge.MergeMethod{forge.MergeCommit, forge.MergeSquash} {
		pr, head := w.pull(t, string(method))
		w.Faults.Add(Fault{Method: "PUT", Path: "merge", AfterEffect: true}, Fault{Method: "POST", Path: "merge", AfterEffect: true})
		_, err := w.Service.Merge(t.Context(), w.Repo, pr.Number, forge.Merge{Method: method, HeadCommit: head})
		w.Faults.Clear()
		requireFailure(t, err, contract.ClassInfra, contract.CodeUnavailable)
		commit, err := w.Service.Merge(t.Context(), w.Repo, pr.Number, forge.Merge{Method: method, HeadCommit: head})
		require.NoError(t, err)
		require.Equal(t, w.Head("main"), commit)
	}
}

func testLostRemoval(t *testing.T, w World) {
	pr, _ := w.pull(t, "x")
	on := forge.OnPullRequest(pr.Number)
	require.NoError(t, w.Service.AddLabels(t.Context(), w.Repo, on, []string{"a", "b"}))
	w.Faults.Add(Fault{Method: "DELETE", AfterEffect: true}, Fault{Method: "PUT", AfterEffect: true})
	err := w.Service.RemoveLabel(t.Context(), w.Repo, on, "a")
	w.Faults.Clear()
	requireFailure(t, err, contract.ClassInfra, contract.CodeUnavailable)
	require.NoError(t, w.Service.RemoveLabel(t.Context(), w.Repo, on, "a"))
	after, err := w.Service.PullRequest(t.Context(), w.Repo, pr.Number)
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, after.Labels)

	w.Push("y", map[string]string{"y": "y\n"})
	w.Faults.Add(Fault{Method: "DELETE", AfterEffect: true})
	err = w.Service.DeleteBranch(t.Context(), w.Repo, "y")
	w.Faults.Clear()
	requireFailure(t, err, contract.ClassInfra, contract.CodeUnavailable)
	require.NoError(t, w.Service.DeleteBranch(t.Context(), w.Repo, "y"))
	require.Empty(t, w.Head("y"))
}
