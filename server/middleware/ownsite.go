package middleware

import (
	"net/http"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
)

// FromOtherSite reports whether a page of another site made the browser send a request. Only browsers
// say so: requests of other programs count as the user's own.
func FromOtherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// OwnSite rejects requests for some paths that a page of another site made the browser send, whatever
// their method: these paths have effects even with GET, such as fetching a repository.
func OwnSite(next http.Handler, paths []string, fail Fail) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(paths, r.URL.Path) && FromOtherSite(r) {
			fail(w, r, apitypes.Problem{
				Title: "Requested by a page of another site", Status: http.StatusForbidden,
				Detail: "This address fetches and indexes repositories, which only the pages of this server and programs may request.",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}
