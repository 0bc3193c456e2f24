package fault

import (
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// Limits on how much of an output is scanned and quoted. The first error in a long output usually
// causes the rest, and the end shows the result; the middle is least informative.
const (
	// MaxScanHead is the number of bytes scanned at the beginning of an output.
	MaxScanHead = 16 << 10
	// MaxScanTail is the number of bytes scanned at the end of an output.
	MaxScanTail = 48 << 10
	// MaxOutputMessage is the maximum length of a message about an output or a response, in bytes.
	MaxOutputMessage = 700
	// MaxOutputCause is the maximum length of the cause of such a failure, in bytes.
	MaxOutputCause = 1200

	maxScanLine     = 2000 // bytes of one line; a longer one is minified or hostile
	maxShownCommand = 120  // bytes of the command in a message
	maxShownLine    = 300  // bytes of the decisive line in a message
)

// Output is the result of a failed command.
type Output struct {
	// Command is the command line, for the message.
	Command string
	// ExitCode is its exit code, or 128 plus a signal's number.
	ExitCode int
	// Signal is the signal that terminated it ("killed", "SIGSEGV"), or "".
	Signal string
	// TimedOut is whether it was stopped at its time limit.
	TimedOut bool
	// OutOfMemory is whether it was stopped at its memory limit.
	OutOfMemory bool
	// Text is its output, or the end of it.
	Text string
}

// OfOutput returns the failure for a failed command's output: class, code, a message that states
// what failed, where and what to do, and as its cause the lines of the root cause without errors
// that follow from it. The text may be hostile: scanning is bounded by MaxScanHead and MaxScanTail,
// and the resulting texts are short, valid UTF-8. An unrecognised output is a RUNTIME_ERROR with
// code unknown. OfOutput may take a tenth of a second: call it in activities, not in workflow code.
func OfOutput(o Output) *contract.Failure {
	text := readable(o.Text)
	if v, ok := endedByLimit(o); ok {
		return v.failure(o, finding{cause: v.endCause(o, text)})
	}
	low := strings.ToLower(text)
	for i := range recognisers {
		r := &recognisers[i]
		if !r.applies(o, low) {
			continue
		}
		if f, ok := r.find(text); ok {
			return r.is.failure(o, f)
		}
	}
	v := byExit(o)
	return v.failure(o, finding{cause: v.endCause(o, text)})
}

// verdict describes a kind of failure.
type verdict struct {
	class contract.Class
	code  contract.Code
	what  string // completes "`command`: …"
	todo  string // an imperative
}

// finding is the location and cause of a failure.
type finding struct {
	cause string // lines of the output
	where string // file:line, or ""
}

// failure combines a verdict and a finding into a failure.
func (v verdict) failure(o Output, f finding) *contract.Failure {
	var b strings.Builder
	if command := oneLine(o.Command, maxShownCommand); command != "" {
		b.WriteString("`" + command + "`: ")
	}
	b.WriteString(v.what)
	if f.where != "" {
		b.WriteString(" at " + f.where)
	}
	line := oneLine(FirstLine(f.cause), maxShownLine)
	if line != "" {
		b.WriteString(": " + line)
	}
	if v.todo != "" {
		b.WriteString("; " + v.todo)
	}
	return &contract.Failure{
		Class: v.class, Code: v.code,
		Message: Clip(b.String(), MaxOutputMessage), Cause: Clip(hideLogins(f.cause), MaxOutputCause),
	}
}

// endCause returns the cause for a command with an unrecognised output: the most informative line,
// and how the command ended.
func (v verdict) endCause(o Output, text string) string {
	how := fmt.Sprintf("it exited with code %d", o.ExitCode)
	switch {
	case o.TimedOut:
		how = "it was stopped at its time limit"
	case o.OutOfMemory:
		how = "it was stopped at its memory limit"
	case o.Signal != "":
		how = fmt.Sprintf("it was terminated by signal %s (exit code %d)", oneLine(o.Signal, 40), o.ExitCode)
	case v.code == contract.CodeTimeout:
		how = fmt.Sprintf("it exceeded a time limit set by the command itself (exit code %d)", o.ExitCode)
	}
	if line := tellingLine(text); line != "" {
		return line + "\n" + how
	}
	return how
}

// The verdicts on commands that were terminated by a limit or a signal.
var (
	ranTooLong  = verdict{contract.ClassRuntime, contract.CodeTimeout, "the command exceeded its time limit", "find out what it is waiting for, or raise the limit"}
	tooMuchRAM  = verdict{contract.ClassRuntime, contract.CodeCommandCrashed, "the command ran out of memory", "reduce its memory use, or raise the memory limit"}
	badSyscall  = verdict{contract.ClassSafety, contract.CodeForbidden, "the command used a system call that the sandbox forbids", "avoid that system call"}
	crashed     = verdict{contract.ClassRuntime, contract.CodeCommandCrashed, "the command crashed", "find the cause and fix the code"}
	unexplained = verdict{contract.ClassRuntime, contract.CodeUnknown, "the command failed without reporting a reason", "run it manually, or make its output more detailed"}
)

const (
	exitTimeout       = 124 // of timeout(1)
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the signal's number
	lastSignal        = 64
	sigsys            = 31
)

// endedByLimit returns the verdict on a command that was terminated externally: its output shows
// how far it got, but not why it failed.
func endedByLimit(o Output) (verdict, bool) {
	signal := strings.ToLower(o.Signal)
	switch {
	case o.TimedOut:
		return ranTooLong, true
	case o.OutOfMemory:
		return tooMuchRAM, true
	case signal == "bad system call", signal == "sigsys", o.ExitCode == exitSignal+sigsys:
		return badSyscall, true
	}
	return verdict{}, false
}

// byExit returns the verdict on an output that no recogniser matches.
func byExit(o Output) verdict {
	switch {
	case o.ExitCode == exitTimeout:
		return ranTooLong
	case o.ExitCode == exitNotFound:
		return missing
	case o.Signal != "", o.ExitCode == exitNotExecutable, o.ExitCode > exitSignal && o.ExitCode <= exitSignal+lastSignal:
		return crashed
	}
	return unexplained
}
