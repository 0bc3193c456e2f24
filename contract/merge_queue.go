package contract

import (
	"encoding/json"
	"fmt"
	"time"
)

// WorkflowMergeQueue is the workflow type that merges the pull requests of a branch.
const WorkflowMergeQueue = "rgpt.MergeQueue"

// Activities of merge queues.
const (
	ActivityQueueSave      = "rgpt.queue.Save"
	ActivityQueueCandidate = "rgpt.queue.Candidate"
	ActivityQueueChecks    = "rgpt.queue.Checks"
	ActivityQueueMerge     = "rgpt.queue.Merge"
	ActivityQueueReturn    = "rgpt.queue.Return"
	ActivityQueueCleanUp   = "rgpt.queue.CleanUp"
)

// UpdateQueue sends a command to a merge queue; see QueueCommand.
const UpdateQueue = "queue"

// MaxQueued is the maximum number of pull requests in a merge queue: its workflow carries all of them
// when it continues as new.
const MaxQueued = 100

// QueueRef names a merge queue: each branch of a repository has one.
type QueueRef struct {
	Forge string `json:"forge"`      // name in the configuration
	Repo  string `json:"repository"` // path on the forge
	Base  string `json:"base"`       // branch into which pull requests are merged
}

// String names the queue, for messages.
func (q QueueRef) String() string { return fmt.Sprintf("%s of %s on %s", q.Base, q.Repo, q.Forge) }

// MergeQueueWorkflowID returns the workflow id of a merge queue: merge-queue/work/team/app/main.
func MergeQueueWorkflowID(q QueueRef) string {
	return fmt.Sprintf("merge-queue/%s/%s/%s", q.Forge, q.Repo, q.Base)
}

// MergePolicy says how pull requests are merged. It is frozen when one is added, and then applies to
// the whole queue.
type MergePolicy struct {
	Method        string        `json:"method"` // merge, squash or rebase
	DeleteBranch  bool          `json:"delete_branch,omitempty"`
	Approvals     int           `json:"approvals,omitempty"`
	Labels        []string      `json:"labels,omitempty"`         // that a pull request must have
	BlockedLabels []string      `json:"blocked_labels,omitempty"` // that it must not have
	RemoveLabels  bool          `json:"remove_labels,omitempty"`  // Labels, when it is returned
	Checks        []string      `json:"checks,omitempty"`         // in addition to those that the forge requires
	Batch         int           `json:"batch"`
	CheckTime     time.Duration `json:"check_time"`
	CheckPoll     time.Duration `json:"check_poll"`
	Prefix        string        `json:"prefix"` // of the branches of candidates
}

// QueueAction is what a command asks a merge queue to do.
type QueueAction string

// The commands of a merge queue.
const (
	QueueAdd    QueueAction = "add"
	QueueRemove QueueAction = "remove"
	QueueSkip   QueueAction = "skip" // move to the end
	QueuePause  QueueAction = "pause"
	QueueResume QueueAction = "resume"
)

// QueueCommand is a command to a merge queue. ID makes it idempotent: a repeat with the same id changes
// nothing.
type QueueCommand struct {
	ID     string      `json:"id"`
	Action QueueAction `json:"action"`
	Number int64       `json:"number,omitempty"` // of the pull request, for add, remove and skip
	By     string      `json:"by,omitempty"`
	Reason string      `json:"reason,omitempty"`
	// Of a pull request that is added:
	Head   string       `json:"head,omitempty"` // the commit that may be merged; another head is returned
	Title  string       `json:"title,omitempty"`
	URL    string       `json:"url,omitempty"`
	RunID  int64        `json:"run_id,omitempty"` // that has it; 0: none
	Policy *MergePolicy `json:"policy,omitempty"`
}

// QueueAck answers a command to a merge queue.
type QueueAck struct {
	Applied  bool   `json:"applied"` // false: nothing needed to change
	Position int    `json:"position,omitempty" doc:"place of the pull request among those that wait, from 1"`
	Message  string `json:"message"`
}

// QueueState is the state of a pull request in a merge queue.
type QueueState string

// The states of a pull request in a merge queue. It stays returned or merged.
const (
	QueueWaiting  QueueState = "waiting"
	QueueTesting  QueueState = "testing"
	QueueMerging  QueueState = "merging"
	QueueMerged   QueueState = "merged"
	QueueReturned QueueState = "returned"
)

// Ended reports whether the pull request has left the queue.
func (s QueueState) Ended() bool { return s == QueueMerged || s == QueueReturned }

// QueueEntry is a pull request in a merge queue. One that was returned and added again is another entry.
type QueueEntry struct {
	Key     string     `json:"key"` // id of the command that added it
	Number  int64      `json:"number"`
	Head    string     `json:"head,omitempty"` // the commit that was added, which alone is tested and merged
	Title   string     `json:"title,omitempty"`
	URL     string     `json:"url,omitempty"`
	RunID   int64      `json:"run_id,omitempty"`
	AddedBy string     `json:"added_by,omitempty"`
	AddedAt time.Time  `json:"added_at"`
	Since   *time.Time `json:"since,omitempty"` // when its own checks were first seen to lack a result
	Place   int64      `json:"place"`           // those that wait are taken in the order of their places
	State   QueueState `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	Batch   string     `json:"batch,omitempty"` // branch of the candidate that it was last part of
	Commit  string     `json:"commit,omitempty"`
	Version int64      `json:"version"` // grows with each change
}

// QueueSave stores what has changed in a merge queue. A repeat changes nothing.
type QueueSave struct {
	Queue    QueueRef       `json:"queue"`
	Version  int64          `json:"version"`
	First    bool           `json:"first,omitempty"` // it is the first one of an execution that carried nothing over
	Paused   *QueuePaused   `json:"paused,omitempty"`
	Entries  []QueueEntry   `json:"entries,omitempty"`
	Commands []QueueCommand `json:"commands,omitempty"`
	Runs     int            `json:"runs,omitempty"`    // candidates whose checks ran, since the last time
	Decided  int            `json:"decided,omitempty"` // pull requests that checks of candidates decided about, since the last time
}

// QueuePaused says who paused a merge queue, and why.
type QueuePaused struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// MergeQueueInput starts the workflow of a merge queue. State is what an earlier execution carried over.
type MergeQueueInput struct {
	Queue QueueRef        `json:"queue"`
	State json.RawMessage `json:"state,omitempty"`
}

// QueueCandidateInput asks for a commit with the changes of several pull requests.
type QueueCandidateInput struct {
	Queue  QueueRef      `json:"queue"`
	Policy MergePolicy   `json:"policy"`
	Wanted []QueueWanted `json:"wanted"` // in the order of the merges
	Most   int           `json:"most"`   // that are included: others of Wanted replace those that cannot be
	At     time.Time     `json:"at"`     // time of the commits
}

// QueueWanted is a pull request that a candidate shall have.
type QueueWanted struct {
	Number int64     `json:"number"`
	Head   string    `json:"head"`  // the commit that was added; another head is refused
	Since  time.Time `json:"since"` // when its own checks were first seen to lack a result; the present if not yet
}

// QueueVerdict is what became of a pull request when a candidate was built.
type QueueVerdict string

// What becomes of a pull request when a candidate is built.
const (
	QueueIncluded QueueVerdict = "included"
	QueueDeferred QueueVerdict = "deferred" // it waits, because it conflicts with those before it
	QueueNotYet   QueueVerdict = "not_yet"  // it waits, because its own checks have not ended
	QueueRefused  QueueVerdict = "refused"  // it must be returned
	QueueIsMerged QueueVerdict = "merged"   // it was merged by other means
)

// QueuePart is a pull request of a candidate.
type QueuePart struct {
	Number  int64        `json:"number"`
	Verdict QueueVerdict `json:"verdict"`
	Head    string       `json:"head,omitempty"`
	Tree    string       `json:"tree,omitempty"` // of the base with this and all earlier parts
	Reason  string       `json:"reason,omitempty"`
	Commit  string       `json:"commit,omitempty"` // on the base, of one that is merged
	Wanted  string       `json:"wanted,omitempty"` // the head for which it was wanted
}

// QueueCandidate is the base with the changes of several pull requests. Without a commit, none of them
// is included.
type QueueCandidate struct {
	Base   string      `json:"base"` // commit
	Commit string      `json:"commit,omitempty"`
	Tree   string      `json:"tree,omitempty"`
	Branch string      `json:"branch,omitempty"`
	Parts  []QueuePart `json:"parts"`
	// Required are the checks that must succeed. None: it is merged without checks.
	Required []string `json:"required,omitempty"`
}

// QueueChecksInput asks for the results of a candidate's checks.
type QueueChecksInput struct {
	Queue    QueueRef      `json:"queue"`
	Commit   string        `json:"commit"`
	Required []string      `json:"required"`
	Poll     time.Duration `json:"poll"`
	Wait     time.Duration `json:"wait"` // at most; then the result may still be pending
}

// The results of checks.
const (
	QueueGreen   = "green"
	QueueRed     = "red"
	QueuePending = "pending"
)

// QueueChecks is the result of a candidate's checks.
type QueueChecks struct {
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"` // which check failed or has not ended, in Markdown
}

// QueueMergeInput asks to merge a pull request onto a base that must not have moved.
type QueueMergeInput struct {
	Queue  QueueRef    `json:"queue"`
	Policy MergePolicy `json:"policy"`
	Part   QueuePart   `json:"part"`
	Base   string      `json:"base"`             // the commit on which it was tested
	OfRun  bool        `json:"of_run,omitempty"` // a run has it, so its branch can be deleted
}

// QueueMergeResult is what became of a merge.
type QueueMergeResult struct {
	Merged  bool     `json:"merged"`
	Commit  string   `json:"commit,omitempty"`  // that the forge made
	Base    string   `json:"base,omitempty"`    // the newest commit of the base after it
	Moved   bool     `json:"moved,omitempty"`   // the base is not what was tested: what follows must be tested again
	Refused string   `json:"refused,omitempty"` // why the forge does not merge it
	Notes   []string `json:"notes,omitempty"`
}

// QueueReturnInput asks to inform the authors of a pull request why it left the queue.
type QueueReturnInput struct {
	Queue  QueueRef    `json:"queue"`
	Policy MergePolicy `json:"policy"`
	Entry  QueueEntry  `json:"entry"`
}

// QueueCleanUpInput asks to remove the branch of a candidate.
type QueueCleanUpInput struct {
	Queue  QueueRef `json:"queue"`
	Branch string   `json:"branch"`
}
