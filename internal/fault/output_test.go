package fault_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestAMessageSaysWhatFailedWhereWhyAndWhatToDo(t *testing.T) {
	t.Parallel()
	f := fault.OfOutput(fault.Output{Command: "go test ./...", ExitCode: 1, Text: "--- FAIL: TestAdd (0.00s)\n    cart_test.go:7: Add(2, 3) = -1, want 5\nFAIL\n"})
	require.Equal(t, "`go test ./...`: a test failed at cart_test.go:7: cart_test.go:7: Add(2, 3) = -1, want 5; fix the code, or the test if it is wrong", f.Message)
}

func TestTheFirstErrorIsTheCauseNotWhatFollowed(t *testing.T) {
	t.Parallel()
	f := fault.OfOutput(fault.Output{Command: "make", ExitCode: 2, Text: "cc -c a.c\na.c:2:10: error: 'y' undeclared\na.c:9:1: error: unknown type name 'z'\nmake: *** [Makefile:4: a.o] Error 1\n"})
	require.Equal(t, "a.c:2:10: error: 'y' undeclared", f.Cause)
}

func TestWhatALimitEndedIsNotExplainedByItsLastOutput(t *testing.T) {
	t.Parallel()
	text := "npm ERR! code ECONNREFUSED\nAssertionError: no\n"
	late := fault.OfOutput(fault.Output{Command: "npm test", ExitCode: 137, Signal: "killed", TimedOut: true, Text: text})
	require.Equal(t, contract.CodeTimeout, late.Code)
	require.Contains(t, late.Cause, "time limit")
	fat := fault.OfOutput(fault.Output{ExitCode: 137, Signal: "killed", OutOfMemory: true, Text: text})
	require.Equal(t, contract.CodeCommandCrashed, fat.Code)
	require.Contains(t, fat.Message, "out of memory")
}

func TestAnOutputThatNothingExplainsIsARuntimeError(t *testing.T) {
	t.Parallel()
	f := fault.OfOutput(fault.Output{Command: "./x", ExitCode: 3, Text: "all is well\nbye\n"})
	require.Equal(t, contract.ClassRuntime, f.Class)
	require.Equal(t, contract.CodeUnknown, f.Code)
	require.Equal(t, "bye\nit exited with code 3", f.Cause)
}

func TestPasswordsInAddressesAreNotRepeated(t *testing.T) {
	t.Parallel()
	f := fault.OfOutput(fault.Output{
		Command: "git push https://bot:hunter2@git.example.com/a.git", ExitCode: 128,
		Text: "fatal: Authentication failed for 'https://bot:hunter2@git.example.com/a.git/'\n",
	})
	require.Equal(t, contract.CodeUnauthorized, f.Code)
	require.NotContains(t, f.Message+f.Cause, "hunter2")
	require.NotContains(t, fault.OfHTTP(500, []byte(`{"error":"no route to http://u:hunter2@h/"}`)).Message, "hunter2")
}

func TestALongOutputIsReadAtItsBeginningAndItsEndOnly(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("compiling\n", fault.MaxScanTail/8)
	fails := "main.go:3:2: undefined: x\n"
	code := func(text string) contract.Code { return fault.OfOutput(fault.Output{ExitCode: 1, Text: text}).Code }
	require.Equal(t, contract.CodeCheckFailed, code(fails+filler+filler))
	require.Equal(t, contract.CodeCheckFailed, code(filler+filler+fails))
	require.Equal(t, contract.CodeUnknown, code(filler+fails+filler), "the middle is not looked at")
}

func TestColoursAndWrappersDoNotHideAnError(t *testing.T) {
	t.Parallel()
	f := fault.OfOutput(fault.Output{ExitCode: 1, Text: "#9 4.11 \x1b[31mmain.go:14:17:\x1b[0m undefined: handler\r\n"})
	require.Equal(t, "main.go:14:17: undefined: handler", f.Cause)
	f = fault.OfOutput(fault.Output{ExitCode: 1, Text: "2026-01-02T03:04:05.678Z main.go:14:17: undefined: handler\n"})
	require.Contains(t, f.Message, "at main.go:14")
}

func TestAPlaceIsTheRepositorysOwn(t *testing.T) {
	t.Parallel()
	f := fault.OfOutput(fault.Output{ExitCode: 1, Text: `Traceback (most recent call last):
  File "/workspace/app/main.py", line 3, in <module>
    fetch()
  File "/usr/lib/python3/json/decoder.py", line 355, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
`})
	require.Contains(t, f.Message, "at app/main.py:3:")
}

// short checks what must be true of every failure, whatever its input.
func short(t *testing.T, f *contract.Failure) {
	require.Contains(t, contract.Classes(), f.Class)
	require.NotEmpty(t, f.Code)
	require.NotEmpty(t, f.Message)
	require.NotEmpty(t, f.Cause)
	require.LessOrEqual(t, len(f.Message), fault.MaxOutputMessage)
	require.LessOrEqual(t, len(f.Cause), fault.MaxOutputCause)
	require.True(t, utf8.ValidString(f.Message) && utf8.ValidString(f.Cause), "%q %q", f.Message, f.Cause)
	require.NotContains(t, f.Message, "\n")
	require.NotContains(t, f.Message+f.Cause, "\x1b")
}

func FuzzOfOutput(f *testing.F) {
	for _, s := range corpus(f) {
		f.Add(s.Command, s.Exit, s.Signal, s.TimedOut, s.OOM, s.Text)
	}
	f.Add("x", -1, "\xff", false, false, strings.Repeat("\x1b[", 100)+"\xff\xfe"+strings.Repeat("a:1:", 9000))
	f.Fuzz(func(t *testing.T, command string, exit int, signal string, timedOut, oom bool, text string) {
		short(t, fault.OfOutput(fault.Output{Command: command, ExitCode: exit, Signal: signal, TimedOut: timedOut, OutOfMemory: oom, Text: text}))
	})
}

func FuzzOfAnswerAndHTTP(f *testing.F) {
	for _, s := range corpus(f) {
		f.Add(s.Text, s.Finish, s.Refusal, s.WantJSON, s.Problem, s.Status)
	}
	f.Fuzz(func(t *testing.T, text, finish, refusal string, wantJSON bool, problem string, status int) {
		a := fault.Answer{Text: text, FinishReason: finish, Refusal: refusal, WantJSON: wantJSON, Problem: problem, ToolCalls: []fault.ToolCall{{Name: "finish", Arguments: text}}, Tools: []string{"finish"}}
		if failure := fault.OfAnswer(a); failure != nil {
			short(t, failure)
			require.Equal(t, contract.ClassLLM, failure.Class)
		}
		a.ToolCalls = nil
		if failure := fault.OfAnswer(a); failure != nil {
			short(t, failure)
			require.Equal(t, contract.ClassLLM, failure.Class)
		}
		short(t, fault.OfHTTP(status, []byte(text)))
	})
}

func BenchmarkOfOutput(b *testing.B) {
	for name, line := range map[string]string{
		"plain":   "everything is fine here, go on\n",
		"hints":   "error: failed, timeout of test not ok, cannot find module 'x: no such file or directory denied (\n",
		"oneline": "Error: at a.go:1:",
	} {
		for _, size := range []int{128 << 10, 1 << 20, 8 << 20} {
			text := strings.Repeat(line, size/len(line))
			b.Run(name+"/"+map[int]string{128 << 10: "128KiB", 1 << 20: "1MiB", 8 << 20: "8MiB"}[size], func(b *testing.B) {
				for b.Loop() {
					require.Error(b, fault.OfOutput(fault.Output{ExitCode: 1, Text: text}))
				}
			})
		}
	}
}
