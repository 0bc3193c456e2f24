package contract

import "time"

// Class is the kind of a failure. It decides how often an activity is retried
// with the same parameters and what self-heal may do. As the type of a Temporal
// application error it crosses process borders.
type Class string

// The failure classes.
const (
	ClassLLM       Class = "LLM_ERROR"       // bad output, invalid JSON, hallucination, refusal, truncated
	ClassInfra     Class = "INFRA_ERROR"     // timeout, network, rate limit, 5xx, crash, lost worker, database down
	ClassAssertion Class = "ASSERTION_ERROR" // tests failed, output mismatch
	ClassRuntime   Class = "RUNTIME_ERROR"   // a command or tool crashed; any error that nothing else explains
	ClassLogic     Class = "LOGIC_ERROR"     // wrong plan, invalid steps, conflicts
	ClassConfig    Class = "CONFIG_ERROR"    // missing or invalid configuration or environment
	ClassSafety    Class = "SAFETY_ERROR"    // a forbidden behaviour
	ClassHuman     Class = "HUMAN_ERROR"     // impossible goal, wrong repository, rejected approval
)

// Classes returns all failure classes in the order of the specification.
func Classes() []Class {
	return []Class{ClassLLM, ClassInfra, ClassAssertion, ClassRuntime, ClassLogic, ClassConfig, ClassSafety, ClassHuman}
}

// Code is the specific kind of a failure within its class, for programs.
type Code string

// Failure codes.
const (
	CodeInvalidOutput   Code = "invalid_output"     // model output that is not valid JSON or breaks its schema
	CodeRefusal         Code = "refusal"            // the model declined
	CodeTruncated       Code = "truncated"          // the response was cut off at the output limit
	CodeContextOverflow Code = "context_overflow"   // the conversation is larger than the model's window
	CodeLoop            Code = "loop"               // the agent repeats itself
	CodeStepBudget      Code = "step_budget"        // the turns, tokens, money or time of a step are used up
	CodeBudgetExceeded  Code = "budget_exceeded"    // a budget of the run, tenant or day is used up
	CodeRateLimited     Code = "rate_limited"       // HTTP 429
	CodeQuotaExhausted  Code = "quota_exhausted"    // the provider's quota is used up
	CodeUnavailable     Code = "unavailable"        // connection refused, reset, 5xx
	CodeUnreachable     Code = "host_unreachable"   // a host that a setup may reach did not respond
	CodeDatabaseDown    Code = "database_down"      // our own database does not respond
	CodeRunTimeout      Code = "run_timeout"        // the whole run exceeded its time limit
	CodeTimeout         Code = "timeout"            // a deadline passed
	CodeWorkerLost      Code = "worker_lost"        // a heartbeat was missed
	CodeQuarantined     Code = "quarantined"        // work that no worker finished, and that is not retried
	CodeCancelled       Code = "cancelled"          // stopped on purpose
	CodeNotChosen       Code = "not_chosen"         // another attempt at the same goal was chosen
	CodeUnauthorized    Code = "unauthorized"       // HTTP 401, 403
	CodeModelNotFound   Code = "model_not_found"    // HTTP 404
	CodeBadRequest      Code = "bad_request"        // HTTP 400, 422: the provider refused the request's form
	CodeTestsFailed     Code = "tests_failed"       // a test failed
	CodeCheckFailed     Code = "check_failed"       // a build, lint, security or custom check failed
	CodeFindings        Code = "findings"           // more findings than the threshold allows
	CodeNoTests         Code = "no_tests"           // verification found nothing to run
	CodeCommandCrashed  Code = "command_crashed"    // a command or tool was killed by a signal or could not start
	CodeInvalidPlan     Code = "invalid_plan"       // a cycle, an unknown dependency, an impossible step
	CodeMergeConflict   Code = "merge_conflict"     // the changes of two steps conflict
	CodeBranchConflict  Code = "branch_conflict"    // the release branch has other content
	CodeEmptyChange     Code = "empty_change"       // nothing to release
	CodeTooLarge        Code = "too_large"          // a change or message is larger than allowed
	CodePathEscape      Code = "path_escape"        // a path outside the workspace or inside .git
	CodeForbidden       Code = "forbidden"          // an action outside the agent's tools or policy
	CodeDenied          Code = "denied"             // the policy gate refused a change
	CodeStaleVerdict    Code = "stale_verdict"      // the policy gate has not judged what would be released now
	CodeReview          Code = "review_findings"    // a review found major problems in a change
	CodeIsolation       Code = "isolation"          // the sandbox cannot isolate
	CodeInvalidConfig   Code = "invalid_config"     // an error in rgpt.yaml or the environment
	CodeRejected        Code = "rejected"           // a person refused
	CodeApprovalExpired Code = "approval_expired"   // nobody answered in time
	CodeRepository      Code = "repository"         // the repository or base cannot be used
	CodeDiskFull        Code = "disk_full"          // no space left on a device
	CodeBlocked         Code = "blocked"            // an agent reports that it cannot continue
	CodeMissing         Code = "missing_dependency" // a program, package or image that the work needs is not installed
	CodeIntegrity       Code = "integrity"          // a download does not match its checksum
	CodeHallucination   Code = "hallucination"      // a model named a tool or file that does not exist
	CodeEmptyOutput     Code = "empty_output"       // a model answered nothing
	CodeNoConsensus     Code = "no_consensus"       // the members of a deliberation did not agree
	CodeUnknown         Code = "unknown"            // nothing more is known
)

// Failure is a typed error that ends an execution. Message is written for users: what was tried, on
// what, why it failed, what to do. Cause is the root cause as far as known, shortened and redacted.
type Failure struct {
	Class   Class  `json:"error_type"`
	Code    Code   `json:"code,omitempty"`
	Message string `json:"error_message"`
	Cause   string `json:"cause,omitempty"`
	// Wait is the waiting time that the refusing service requires, if that is known and only
	// waiting helps: until the window of an exhausted quota ends.
	Wait time.Duration `json:"wait,omitempty"`

	// Worker is the worker on which the failure happened, if known; see QueueOfWorker.
	Worker string `json:"worker,omitempty"`
}

// Error returns the failure as text, so that a Failure is a Go error.
func (f *Failure) Error() string {
	if f.Code == "" {
		return string(f.Class) + ": " + f.Message
	}
	return string(f.Class) + " (" + string(f.Code) + "): " + f.Message
}
