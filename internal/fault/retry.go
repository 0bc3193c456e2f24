package fault

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// Retry defines how failed work of a class is retried with the same parameters. Further attempts
// are left to self-healing.
type Retry struct {
	Attempts int           // in total; 1: no retry
	First    time.Duration // before the second attempt
	Factor   float64       // between two waits
	Longest  time.Duration // between two attempts
}

// retries is the specification's table of automatic retries. The first delays of INFRA_ERROR are
// short, because a lost connection to our own database is usually restored within seconds; twelve
// attempts span about a minute and a half, which covers a database restart or a short provider
// outage.
var retries = map[contract.Class]Retry{
	contract.ClassLLM:       {Attempts: 1},
	contract.ClassInfra:     {Attempts: 12, First: 250 * time.Millisecond, Factor: 2, Longest: 20 * time.Second},
	contract.ClassAssertion: {Attempts: 1},
	contract.ClassRuntime:   {Attempts: 2, First: 250 * time.Millisecond, Factor: 1, Longest: 250 * time.Millisecond},
	contract.ClassLogic:     {Attempts: 1},
	contract.ClassConfig:    {Attempts: 1},
	contract.ClassSafety:    {Attempts: 1},
	contract.ClassHuman:     {Attempts: 1},
}

// kind is a code within a class.
type kind struct {
	class contract.Class
	code  contract.Code
}

// unlimited is a number of attempts that is never reached.
const unlimited = math.MaxInt32

// byKind overrides the retries of a class for specific codes. Work that timed out once is likely to
// time out again. Work that cannot reach a host has already run for minutes, so its delays are
// longer. Our own database is retried without limit, because the records of a run must be written,
// however late; the options of other activities limit their retries (workflows/internal/options).
var byKind = map[kind]Retry{
	{contract.ClassInfra, contract.CodeTimeout}:      {Attempts: 5, First: 250 * time.Millisecond, Factor: 2, Longest: 20 * time.Second},
	{contract.ClassInfra, contract.CodeUnreachable}:  {Attempts: 5, First: 5 * time.Second, Factor: 3, Longest: time.Minute},
	{contract.ClassInfra, contract.CodeDatabaseDown}: {Attempts: unlimited, First: 100 * time.Millisecond, Factor: 2, Longest: 30 * time.Second},
}

// notRetried are the codes that a second attempt with the same parameters cannot fix,
// although their class may be retried.
var notRetried = map[contract.Code]bool{
	contract.CodeCancelled:      true,
	contract.CodeNotChosen:      true,
	contract.CodeRunTimeout:     true,
	contract.CodeDiskFull:       true,
	contract.CodeQuotaExhausted: true,
	contract.CodeBudgetExceeded: true,
	contract.CodeIsolation:      true,
	contract.CodeTooLarge:       true,
	contract.CodeQuarantined:    true,
	contract.CodeStaleVerdict:   true,
}

// RetryOf returns the row of a class; an unknown class is treated as RUNTIME_ERROR.
func RetryOf(class contract.Class) Retry {
	if r, ok := retries[class]; ok {
		return r
	}
	return retries[contract.ClassRuntime]
}

// RetryDelay returns the delay before work is retried after a given failed attempt (from 1), and
// whether it is retried: exponential backoff with jitter over the upper half, but at least the
// delay that the remote service requested.
func (e *Error) RetryDelay(attempt int) (time.Duration, bool) {
	row, ok := byKind[kind{e.Class, e.Code}]
	if !ok {
		row = RetryOf(e.Class)
	}
	if attempt >= row.Attempts || notRetried[e.Code] {
		return 0, false
	}
	wait := float64(row.First) * math.Pow(row.Factor, float64(attempt-1))
	wait = min(wait, float64(row.Longest))
	wait *= 0.5 + rand.Float64()/2
	return max(time.Duration(wait), e.RetryAfter), true
}
