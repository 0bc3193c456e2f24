package pages

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/server/middleware"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/respond"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of a page of a log.
const (
	shownEntries  = 100
	scannedLog    = 1000     // messages searched per page
	entryLines    = 12       // of a message; the rest has its own page
	entryText     = 8000     // characters of a message
	linesBefore   = 3        // lines above a match
	entryBytes    = 4000     // of a message, as shown
	outputBytes   = 64 << 10 // of a check's output that is read for the log
	searchedBytes = 1 << 20  // of a check's output that is searched
	maxSearch     = 200      // characters to search for
	// logOverlap is how far before its end a growing log is read again, as entries written at the
	// same time may become visible a moment later.
	logOverlap = 2 * time.Second
)

// logRequest is the requested part of a log.
type logRequest struct {
	ui.LogChoice
	all    []store.Execution // of the run
	chosen []store.Execution
	one    *store.Execution
}

func (s *Server) logRequest(ctx context.Context, r *http.Request, run int64) (l logRequest, err error) {
	q, err := param.Query(r)
	if err != nil {
		return l, err
	}
	l.LogChoice = ui.LogChoice{
		Phase: q.Get("phase"), Agent: q.Get("agent"), Step: q.Get("step"), Execution: q.Get("execution"), Role: q.Get("role"), Level: q.Get("level"), Search: q.Get("q"),
	}
	switch {
	case len(l.Search) > maxSearch:
		return l, apitypes.BadRequest(fmt.Sprintf("q: must be at most %d characters", maxSearch))
	case l.Level != "" && l.Level != "error":
		return l, apitypes.BadRequest(fmt.Sprintf("level %q is invalid; must be one of [error]", ui.Cut(l.Level, 40)))
	case l.Role != "" && !slices.Contains([]string{"system", "user", "assistant", "tool", views.LogRoleCheck}, l.Role):
		return l, apitypes.BadRequest(fmt.Sprintf("role %q is invalid; must be one of [system user assistant tool check]", ui.Cut(l.Role, 40)))
	}
	if err := param.OneOf("phase", contract.Phase(l.Phase), contract.Phases()); err != nil {
		return l, err
	}
	var id int64
	if l.Execution != "" {
		if id, err = strconv.ParseInt(l.Execution, 10, 64); err != nil {
			return l, apitypes.BadRequest("execution: must be a number")
		}
	}
	if l.all, err = s.Views.LogExecutions(ctx, run); err != nil {
		return l, err
	}
	for i, e := range l.all {
		if (l.Phase == "" || string(e.Phase) == l.Phase) && (l.Agent == "" || string(e.Agent) == l.Agent) && (l.Step == "" || e.Step == l.Step) && (id == 0 || e.ID == id) {
			l.chosen = append(l.chosen, e)
			if id != 0 {
				l.one = &l.all[i]
			}
		}
	}
	return l, nil
}

func (l logRequest) query(from views.LogKey, back bool) views.LogQuery {
	return views.LogQuery{
		Executions: l.chosen, From: from, Back: back, Role: l.Role, Text: l.Search, Errors: l.Level == "error", Most: shownEntries, Scan: scannedLog,
	}
}

// address returns the address of a page of the same log at another position.
func (l logRequest) address(run int64, page, name, value string) string {
	q := url.Values{}
	for _, v := range [][2]string{
		{"phase", l.Phase}, {"agent", l.Agent}, {"step", l.Step}, {"execution", l.Execution}, {"role", l.Role}, {"level", l.Level}, {"q", l.Search}, {name, value},
	} {
		if v[1] != "" {
			q.Set(v[0], v[1])
		}
	}
	if len(q) == 0 {
		return ui.RunHref(run, page)
	}
	return ui.RunHref(run, page) + "?" + q.Encode()
}

// writeLogKey encodes a position in a log as part of an address.
func writeLogKey(k views.LogKey) string {
	return fmt.Sprintf("%d.%d.%d.%d.%s", k.At.UnixMicro(), k.ExecutionID, k.Turn, k.Place, k.Check)
}

func readLogKey(text string) (k views.LogKey, err error) {
	parts := strings.SplitN(text, ".", 5)
	if len(parts) != 5 {
		return k, apitypes.BadRequest("invalid position in the log")
	}
	var n [4]int64
	for i := range n {
		bits := 64
		if i > 1 {
			bits = 32
		}
		if n[i], err = strconv.ParseInt(parts[i], 10, bits); err != nil {
			return k, apitypes.BadRequest("invalid position in the log")
		}
	}
	if n[0] < 0 || n[0] > views.LogStop.At.UnixMicro() {
		return k, apitypes.BadRequest("invalid position in the log")
	}
	return views.LogKey{At: time.UnixMicro(n[0]).UTC(), ExecutionID: n[1], Turn: int(n[2]), Place: int(n[3]), Check: parts[4]}, nil
}

// windowOf reads the start or the end of the requested window. By default, the log of an active run
// is shown from its end, and the log of a finished run from its beginning.
func windowOf(q url.Values, over bool) (from views.LogKey, back bool, err error) {
	at := q.Get("at")
	switch {
	case q.Get("before") != "":
		from, err = readLogKey(q.Get("before"))
		return from, true, err
	case q.Get("after") != "":
		from, err = readLogKey(q.Get("after"))
		return from, false, err
	case at == "end" || at == "" && !over:
		return views.LogStop, true, nil
	case at == "start" || at == "":
		return views.LogStart, false, nil
	}
	from, err = readLogKey(at)
	from.Place, from.Check = from.Place-1, "" // the window begins with the position itself
	return from, false, err
}

// logsTab shows the messages and outputs of a run as one stream in chronological order.
func (s *Server) logsTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	run := h.Run.ID
	l, err := s.logRequest(ctx, r, run)
	if err != nil {
		return nil, err
	}
	over := h.Run.Status.Terminal() && h.Run.StayingUntil == nil
	from, back, err := windowOf(r.URL.Query(), over)
	if err != nil {
		return nil, err
	}
	w, err := s.Views.LogWindow(ctx, l.query(from, back))
	if err != nil {
		return nil, err
	}
	p := ui.LogPage{Head: *h, Choice: l.LogChoice, One: l.one, Follow: !over, Looked: l.Search != "" || l.Role != ""}
	if p.Entries, err = s.logEntries(ctx, run, l, w.Keys); err != nil {
		return nil, err
	}
	first, last := from, from
	if len(w.Keys) > 0 {
		first, last = w.Keys[0], w.Keys[len(w.Keys)-1]
	}
	if back {
		first, p.HasPrev, p.HasNext = w.Next, w.More, from.Compare(views.LogStop) != 0
	} else {
		last, p.HasNext, p.HasPrev = w.Next, w.More, from.Compare(views.LogStart) > 0
	}
	next := last
	if !p.HasNext {
		if next == views.LogStop {
			next = views.LogStart // nothing there yet
		}
		next = views.LogKey{At: next.At.Add(-logOverlap)}
		if next.At.Before(views.LogStart.At) {
			next = views.LogStart
		}
	}
	p.Prev, p.Next = l.address(run, "logs", "before", writeLogKey(first)), l.address(run, "logs", "after", writeLogKey(next))
	p.NextError, p.Text = l.address(run, "logs/next-error", "after", writeLogKey(last)), l.address(run, "logs/text", "", "")
	if len(w.Keys) > 0 {
		p.NextError = l.address(run, "logs/next-error", "after", writeLogKey(w.Keys[0]))
	}
	for _, e := range l.all {
		if !slices.Contains(p.Agents, e.Agent) {
			p.Agents = append(p.Agents, e.Agent)
		}
		if e.Step != "" && !slices.Contains(p.Steps, e.Step) {
			p.Steps = append(p.Steps, e.Step)
		}
	}
	return ui.LogsTab(p), nil
}

// redactMargin is how many more characters of a message are read than shown, so that a secret at
// the cut is recognized.
const redactMargin = 1000

// logTexts reads messages with Store.LogTexts and redacts them, as tools return files and output to
// agents unredacted. Length is the length of the whole message.
func (s *Server) logTexts(ctx context.Context, keys []views.LogKey, cut int) (map[views.LogKey]views.LogText, error) {
	texts, err := s.Views.LogTexts(ctx, keys, cut+redactMargin)
	for k, t := range texts {
		read := utf8.RuneCountInString(t.Text)
		whole := read == t.Length
		t.Text, t.Calls = telemetry.Redact(t.Text), telemetry.RedactJSON(t.Calls)
		if whole {
			t.Length = utf8.RuneCountInString(t.Text)
		}
		if shown := []rune(t.Text); len(shown) > cut {
			t.Text = string(shown[:cut])
		}
		texts[k] = t
	}
	return texts, err
}

// logEntries reads the entries at positions of a log. It omits outputs of checks that do not
// contain the search text.
func (s *Server) logEntries(ctx context.Context, run int64, l logRequest, keys []views.LogKey) ([]ui.LogEntry, error) {
	texts, err := s.logTexts(ctx, keys, entryText)
	if err != nil {
		return nil, err
	}
	outputs, err := s.Views.LogOutputs(ctx, run, keys)
	if err != nil {
		return nil, err
	}
	executions := map[int64]store.Execution{}
	for _, e := range l.chosen {
		executions[e.ID] = e
	}
	var out []ui.LogEntry
	for _, k := range keys {
		e := ui.LogEntry{Key: writeLogKey(k), ID: entryID(k), At: k.At, Execution: executions[k.ExecutionID], Turn: k.Turn}
		show := true
		switch k.Turn {
		case views.LogEnd:
			show = s.fillEnd(&e, l.Search)
		case views.LogCheck:
			show, err = s.fillOutput(ctx, &e, outputs[k], l.Search)
		default:
			fillText(&e, texts[k], l.Search)
		}
		if err != nil {
			return nil, err
		}
		if e.Whole != "" {
			e.Whole = ui.RunHref(run, "logs/"+url.PathEscape(e.Key))
		}
		if show {
			out = append(out, e)
		}
	}
	return out, nil
}

// entryID returns the HTML id of an entry. The id of a check is untrusted text.
func entryID(k views.LogKey) string {
	id := fmt.Sprintf("l-%d-%d-%d", k.ExecutionID, k.Turn, k.Place)
	if k.Check != "" {
		sum := fnv.New64a()
		sum.Write([]byte(k.Check))
		id += fmt.Sprintf("-%x", sum.Sum64())
	}
	return id
}

func fillText(e *ui.LogEntry, t views.LogText, search string) {
	e.Role, e.Name, e.Bad, e.Code, e.Duration, e.Calls = t.Role, t.Tool, !t.OK && t.Tool != "", t.Code, t.Duration, ui.LogCalls(t.Calls)
	text := t.Text
	if e.Role != "system" || search != "" {
		text = shownPart(t.Text, search)
	}
	e.Text, e.Plain = ui.Pieces(text, search), ui.Plain(text)
	e.Lines = t.Lines
	if len([]rune(text)) < t.Length && strings.TrimRight(t.Text, "\n") != text || len(t.Text) < t.Length {
		e.Whole = "more"
	}
}

// shownPart returns the beginning of a text, or the part around the first match.
func shownPart(text, search string) string {
	part := ui.FirstLines(text, entryLines, entryBytes)
	hit := strings.Index(strings.ToLower(text), strings.ToLower(search))
	if search == "" || hit < len(part) || hit > len(text) {
		return part
	}
	at := hit
	for range linesBefore {
		at = max(0, strings.LastIndexByte(text[:at], '\n'))
	}
	at = max(at, hit-entryBytes/2) // if there are no lines
	return "…\n" + ui.FirstLines(strings.TrimPrefix(strings.ToValidUTF8(text[at:], ""), "\n"), entryLines, entryBytes)
}

func (s *Server) fillEnd(e *ui.LogEntry, search string) bool {
	f := e.Execution.Failure
	e.Role, e.Name, e.Bad, e.Code = "end", string(f.Class), true, f.Code
	text := f.Message
	if f.Code != "" {
		text = string(f.Code) + ": " + text
	}
	e.Text, e.Plain, e.Lines = ui.Pieces(text, search), text, 1
	return search == "" || strings.Contains(strings.ToLower(text), strings.ToLower(search))
}

// fillOutput fills in the output of a check.
func (s *Server) fillOutput(ctx context.Context, e *ui.LogEntry, o views.LogOutput, search string) (bool, error) {
	e.Role, e.Name, e.Bad, e.Code = views.LogRoleCheck, o.Result.Check.Name, !o.Result.OK, o.Result.Code
	e.Name = cmp.Or(e.Name, o.Result.Check.ID)
	e.Duration = time.Duration(o.Result.DurationMS) * time.Millisecond
	most := int64(outputBytes)
	if search != "" {
		most = searchedBytes
	}
	text, err := s.beginning(ctx, o.LogDigest, o.Size, most)
	if err != nil {
		return false, err
	}
	if search != "" && !strings.Contains(strings.ToLower(text+"\n"+o.Result.Message+"\n"+e.Name), strings.ToLower(search)) {
		return false, nil
	}
	text = strings.TrimRight(text, "\n")
	e.Lines = strings.Count(text, "\n") + 1
	part := shownPart(text, search)
	if search == "" && e.Bad && o.Size <= outputBytes { // errors are printed at the end
		part = lastLines(text, entryLines)
	}
	if text == "" {
		part = o.Result.Message
	}
	e.Text, e.Plain = ui.Pieces(part, search), ui.Plain(part)
	if o.ArtifactID != 0 && (part != text || o.Size > most) {
		e.Whole = "more"
	}
	return true, nil
}

func lastLines(text string, lines int) string {
	at := len(text)
	for range lines {
		next := strings.LastIndexByte(text[:at], '\n')
		if next < 0 {
			return ui.FirstLines(text, lines, entryBytes)
		}
		at = next
	}
	return ui.FirstLines(text[at+1:], lines, entryBytes)
}

// beginning reads the first part of a file as text. If the file no longer exists, it returns a
// note.
func (s *Server) beginning(ctx context.Context, digest string, size, most int64) (string, error) {
	if digest == "" || size == 0 {
		return "", nil
	}
	file, err := s.Artifacts.Section(ctx, digest, size)
	if errors.Is(err, artifact.ErrNotFound) {
		return "(the output is no longer stored; retention may have deleted it)", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, most))
	return strings.ToValidUTF8(string(text), "\ufffd"), err
}

// logEntryTab shows the whole text of one entry.
func (s *Server) logEntryTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	k, err := readLogKey(r.PathValue("entry"))
	if err != nil {
		return nil, store.ErrNotFound // no page links there
	}
	run := h.Run.ID
	executions, err := s.Views.LogExecutions(ctx, run)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(executions, func(e store.Execution) bool { return e.ID == k.ExecutionID }) {
		return nil, store.ErrNotFound
	}
	p := ui.LogEntryPage{
		Head: *h, Title: ui.Exact(k.At), Back: ui.RunHref(run, "logs") + "?at=" + url.QueryEscape(writeLogKey(k)) + "#" + entryID(k),
	}
	content, err := s.entryContent(ctx, run, k)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	p.Text, err = textWindow(r, content)
	p.Text.Href = ui.RunHref(run, "logs/"+url.PathEscape(writeLogKey(k)))
	return ui.LogEntryTab(p), err
}

// wholeText is the maximum number of characters read for a message's own page.
const wholeText = 16 << 20

// entryContent opens the whole text of an entry.
func (s *Server) entryContent(ctx context.Context, run int64, k views.LogKey) (io.ReadCloser, error) {
	if k.Turn == views.LogCheck {
		outputs, err := s.Views.LogOutputs(ctx, run, []views.LogKey{k})
		if err != nil {
			return nil, err
		}
		for _, o := range outputs {
			if o.LogDigest != "" {
				content, err := s.Artifacts.Section(ctx, o.LogDigest, o.Size)
				if errors.Is(err, artifact.ErrNotFound) {
					return nil, store.ErrNotFound
				}
				return content, err
			}
		}
		return nil, store.ErrNotFound
	}
	texts, err := s.logTexts(ctx, []views.LogKey{k}, wholeText)
	if err != nil {
		return nil, err
	}
	for _, t := range texts {
		return io.NopCloser(strings.NewReader(t.Text)), nil
	}
	return nil, store.ErrNotFound
}

// Limits of a window of a text.
const (
	shownLines  = 1000
	lineBytes   = 2000
	windowBytes = 1 << 20   // shown
	textBytes   = 256 << 20 // read to reach a line
	foundLines  = 500
)

// textWindow reads the requested window of a text: from a given line on, all lines or those that
// match the search.
func textWindow(r *http.Request, content io.Reader) (t ui.Text, err error) {
	q := r.URL.Query()
	from := 1
	if v := q.Get("from"); v != "" {
		if from, err = strconv.Atoi(v); err != nil || from < 1 {
			return t, apitypes.BadRequest("from: must be a line number, 1 or greater")
		}
	}
	if t.Search = q.Get("q"); len(t.Search) > maxSearch {
		return t, apitypes.BadRequest(fmt.Sprintf("q: must be at most %d characters", maxSearch))
	}
	if err := param.CheckText("q", t.Search); err != nil {
		return t, err
	}
	if from > 1 {
		t.Prev = max(1, from-shownLines)
	}
	limited := &io.LimitedReader{R: content, N: textBytes}
	lines := bufio.NewReaderSize(limited, 64<<10)
	most := shownLines
	if t.Search != "" {
		most = foundLines
	}
	search := bytes.ToLower([]byte(t.Search))
	for no, size := 1, 0; ; no++ {
		line, rest, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return t, err
		}
		if no < from || len(search) > 0 && !bytes.Contains(bytes.ToLower(line), search) {
			continue
		}
		if len(t.Lines) == most || size > windowBytes {
			t.Next = no
			break
		}
		text := strings.ToValidUTF8(string(line), "\ufffd")
		if rest > 0 {
			text += fmt.Sprintf(" … %s more", ui.Size(rest))
		}
		size += len(text)
		t.Lines = append(t.Lines, ui.Line{No: no, Pieces: ui.Pieces(text, t.Search)})
	}
	if limited.N <= 0 && t.Next == 0 {
		t.Short = fmt.Sprintf("Only the first %s of this file are shown. Download it to see the rest.", ui.Size(textBytes))
	}
	return t, nil
}

// readLine reads a line, keeps its beginning, and returns the number of bytes omitted.
func readLine(r *bufio.Reader) (line []byte, rest int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if n := min(len(part), lineBytes-len(line)); n > 0 {
			line = append(line, part[:n]...)
			rest += int64(len(part) - n)
		} else {
			rest += int64(len(part))
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			return bytes.TrimRight(line, "\r\n"), rest, nil
		case err != nil:
			return nil, 0, err
		}
		return bytes.TrimRight(line, "\r\n"), rest, nil
	}
}

// nextError redirects to the next error after a position.
func (s *Server) nextError(w http.ResponseWriter, r *http.Request) error {
	run, err := param.ID(r)
	if err != nil {
		return err
	}
	if _, err := s.Store.Run(r.Context(), run); err != nil {
		return err
	}
	l, err := s.logRequest(r.Context(), r, run)
	if err != nil {
		return err
	}
	from := views.LogStart
	if v := r.URL.Query().Get("after"); v != "" {
		if from, err = readLogKey(v); err != nil {
			return err
		}
	}
	l.Level, l.Search, l.Role = "error", "", ""
	q := l.query(from, false)
	q.Most = 1
	found, err := s.Views.LogWindow(r.Context(), q)
	if err == nil && len(found.Keys) == 0 { // wrap around to the first error
		q.From = views.LogStart
		found, err = s.Views.LogWindow(r.Context(), q)
	}
	if err != nil {
		return err
	}
	l.Level = ""
	to := l.address(run, "logs", "level", "error")
	if len(found.Keys) > 0 {
		to = l.address(run, "logs", "at", writeLogKey(found.Keys[0])) + "#" + entryID(found.Keys[0])
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// logText sends the log as text, page by page as it is read.
func (s *Server) logText(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	run, err := param.ID(r)
	if err != nil {
		return err
	}
	if _, err = s.Store.Run(ctx, run); err != nil {
		return err
	}
	l, err := s.logRequest(ctx, r, run)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", respond.Attachment(fmt.Sprintf("run-%d.log", run)))
	w = middleware.LiftTimeout(w, r, s.Log) // a long log takes time; each chunk has its own limit
	for from := views.LogStart; ; {
		page, err := s.Views.LogWindow(ctx, l.query(from, false))
		if err == nil {
			err = s.writeLog(ctx, w, run, l, page.Keys)
		}
		if err != nil {
			s.Log.InfoContext(ctx, "A log was only partly sent", "request", middleware.RequestID(ctx), "run", run, "error", err)
			fmt.Fprintln(w, "\n=== The log is incomplete: reading it failed. Request it again.") // an error here cannot be reported to the client
			return nil
		}
		if !page.More {
			return nil
		}
		from = page.Next
	}
}

func (s *Server) writeLog(ctx context.Context, w io.Writer, run int64, l logRequest, keys []views.LogKey) error {
	entries, err := s.logEntries(ctx, run, l, keys)
	if err != nil {
		return err
	}
	for _, e := range entries {
		k, err := readLogKey(e.Key)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "\n=== %s %s #%d.%d %s %s\n", ui.Exact(e.At), e.Execution.Phase, e.Execution.Attempt, min(e.Turn, e.Execution.Turns), e.Role, e.Name); err != nil {
			return err
		}
		if e.Role == "end" {
			if _, err := fmt.Fprintln(w, e.Plain); err != nil {
				return err
			}
			continue
		}
		for _, c := range e.Calls {
			if _, err := fmt.Fprintln(w, "->", c.Name, c.Raw); err != nil {
				return err
			}
		}
		content, err := s.entryContent(ctx, run, k)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, artifact.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = io.Copy(w, content)
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return nil
}
