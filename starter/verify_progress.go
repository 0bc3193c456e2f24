package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// verifyProgress prints the progress of a verification as lines and, on a terminal, a status line
// with the running checks, their time and the last line of output. With --json, it goes to standard
// error.
type verifyProgress struct {
	out     io.Writer
	live    bool
	leftOut []string // configuration files that are not trusted

	mu      sync.Mutex
	running []runningCheck
	last    string // line of output
	shown   bool   // there is a status line
	stop    chan struct{}
	stopped sync.WaitGroup
}

// runningCheck is a check in progress.
type runningCheck struct {
	name  string
	since time.Time
}

// refreshEvery is how often the status line changes.
const refreshEvery = 500 * time.Millisecond

func (a *app) newVerifyProgress() *verifyProgress {
	p := &verifyProgress{out: a.out, stop: make(chan struct{})}
	if a.json {
		p.out = a.errs
	}
	f, ok := p.out.(*os.File)
	if p.live = ok && term.IsTerminal(int(f.Fd())); p.live {
		p.stopped.Go(p.refresh)
	}
	return p
}

// refresh updates the status line until close.
func (p *verifyProgress) refresh() {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// close removes the status line. It may be called more than once.
func (p *verifyProgress) close() {
	p.mu.Lock()
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	p.clear()
	p.running = nil
	p.mu.Unlock()
	p.stopped.Wait()
}

func (p *verifyProgress) clear() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[2K")
		p.shown = false
	}
}

// draw shows the status line again.
func (p *verifyProgress) draw() {
	p.clear()
	if !p.live || len(p.running) == 0 {
		return
	}
	var parts []string
	for _, r := range p.running {
		parts = append(parts, fmt.Sprintf("◐ %s %s", r.name, time.Since(r.since).Truncate(time.Second)))
	}
	if text := strings.TrimSpace(terminal.Clean(telemetry.Redact(p.last))); text != "" {
		parts = append(parts, text)
	}
	line := []rune(strings.Join(parts, "  "))
	fmt.Fprint(p.out, styleNow.Render(string(line[:min(len(line), columnsOf(p.out)-1)])))
	p.shown = true
}

// say prints a line above the status line.
func (p *verifyProgress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.out, format+"\n", args...)
	p.draw()
}

// writer returns a writer for lines of a log.
func (p *verifyProgress) writer() io.Writer { return logLines{p} }

type logLines struct{ p *verifyProgress }

func (l logLines) Write(line []byte) (int, error) {
	l.p.say("%s", terminal.CleanLine(strings.TrimSuffix(string(line), "\n")))
	return len(line), nil
}

// onBase marks the work on the base.
func onBase(base bool, what string) string {
	if base {
		return "base: " + what
	}
	return what
}

// start and end mark what is running.
func (p *verifyProgress) start(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = append(p.running, runningCheck{terminal.Clean(name), time.Now()})
	p.last = ""
	p.draw()
}

func (p *verifyProgress) end(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = slices.DeleteFunc(p.running, func(r runningCheck) bool { return r.name == terminal.Clean(name) })
}

// Begin shows what is verified.
func (p *verifyProgress) Begin(r standalone.Report) {
	what := fmt.Sprintf("%.12s of %s", r.Commit, terminal.Clean(r.Repo))
	if r.WorkTree {
		changes := "no changes"
		if r.Changed > 0 {
			changes = counted(fmt.Sprint(r.Changed), "changed file")
		}
		what = fmt.Sprintf("the work tree of %s at %.12s (%s)", terminal.Clean(r.Repo), r.Commit, changes)
	}
	if r.Base != "" {
		what += fmt.Sprintf(", compared with %.12s", r.Base)
	}
	p.say("Verifying %s", what)
	for _, file := range p.leftOut {
		// The rgpt.yaml of the repository applies with the rights of a repository.
		if file != filepath.Join(r.Repo, config.FileName) {
			p.say("Note: %s is not trusted, so it is ignored; if it is yours, run: rgpt trust %s", terminal.Clean(file), terminal.Clean(filepath.Dir(file)))
		}
	}
}

// Note shows a note.
func (p *verifyProgress) Note(text string) { p.say("Note: %s", terminal.Clean(text)) }

const environmentTask = "environment"

// SettingUp shows that an environment is being built.
func (p *verifyProgress) SettingUp(base bool, what string) {
	p.say("%-22s being built: %s", onBase(base, environmentTask), terminal.Clean(what))
	p.start(onBase(base, environmentTask))
}

// Ready shows an environment.
func (p *verifyProgress) Ready(base bool, e standalone.Environment) {
	p.end(onBase(base, environmentTask))
	how := "built"
	if e.Kept {
		how = "reused"
	}
	text := fmt.Sprintf("%s: %s, %d files, %s in %s", terminal.Clean(e.Summary), ui.Size(e.Bytes), e.Files, how, lasted(e.DurationMS))
	if len(e.Missing) > 0 {
		text += "; missing: " + terminal.Clean(strings.Join(e.Missing, ", "))
	}
	p.say("%-22s %s", onBase(base, environmentTask), text)
}

// Started marks a check as running.
func (p *verifyProgress) Started(base bool, c contract.Check) { p.start(onBase(base, c.ID)) }

// Finished shows the outcome of a check.
func (p *verifyProgress) Finished(base bool, r contract.CheckResult) {
	p.end(onBase(base, r.Check.ID))
	word, style := checkWord(r), styleGood
	switch {
	case r.Skipped:
		style = styleWait
	case !r.OK:
		style = styleBad
	}
	if p.live {
		word = style.Render(word)
	}
	parts := []string{word, lasted(r.DurationMS)}
	if tests := checkTests(r); tests != "-" {
		parts = append(parts, tests)
	}
	switch {
	case r.Skipped:
		parts = append(parts, skipReason(r))
	case r.Message != "" && !r.OK:
		parts = append(parts, terminal.OneLine(r.Message))
	}
	p.say("%-22s %s", terminal.Clean(onBase(base, r.Check.ID)), strings.Join(parts, "  "))
}

// lastLine limits the line of output that is kept for the status line.
const lastLine = 1 << 10

// Output keeps the last line of output for the status line.
func (p *verifyProgress) Output(chunk []byte) {
	if !p.live {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := strings.FieldsFunc(string(chunk), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		if strings.TrimSpace(line) != "" {
			p.last = strings.ToValidUTF8(line[:min(len(line), lastLine)], "")
			return
		}
	}
}
