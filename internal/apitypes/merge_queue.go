package apitypes

import "github.com/rocketgpt/orchestrator/internal/store/mergequeues"

// MergeQueues is a list of merge queues.
type MergeQueues struct {
	MergeQueues []mergequeues.MergeQueue `json:"merge_queues"`
}

// QueueRequest is a command to a merge queue.
type QueueRequest struct {
	Attribution

	PullRequest string `json:"pull_request,omitempty" maxLength:"2000" doc:"address of the pull request to add, remove or skip"`
	Forge       string `json:"forge,omitempty" maxLength:"100" doc:"forge of the queue to pause or resume; default: the only one that is configured"`
	Repository  string `json:"repository,omitempty" maxLength:"1000" doc:"repository of the queue to pause or resume, such as team/app"`
	Base        string `json:"base,omitempty" maxLength:"255" doc:"branch of the queue to pause or resume; default: the default branch"`
}
