package apitypes

import "github.com/rocketgpt/orchestrator/internal/store/changesets"

// ChangeSets is a page of change sets.
type ChangeSets struct {
	ChangeSets []changesets.Set `json:"change_sets"`
	Next       int64            `json:"next,omitempty" doc:"before of the next page; absent: this is the last one"`
}
