package scripted

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/await"
)

func TestTheFirstRuleThatMatchesAnswers(t *testing.T) {
	t.Parallel()
	const scenario = `
rules:
  - {when: {agent: planner, phase: planner_running, attempt: 1}, reply: {text: planner first}}
  - {when: {phase: builder, step: step-001, turn: 2}, reply: {text: second turn}}
  - {when: {step: step-001}, reply: {text: step}}
  - {when: {contains: "dark mode"}, reply: {text: dark}}
  - {when: {contains: "be brief", model: big}, reply: {text: big}}
  - {when: {agent: planner, step: ""}, reply: {text: no step}}
`
	s := start(t, scenario, t.TempDir())
	cases := map[string]struct {
		ask  ask
		want string
	}{
		"phase with its ending":     {ask{caller: caller{agent: "planner", phase: "planner_running", attempt: 1}}, "planner first"},
		"phase without":             {ask{caller: caller{agent: "planner", phase: "planner", attempt: 1}}, "planner first"},
		"another attempt":           {ask{caller: caller{agent: "planner", phase: "planner_running", attempt: 2}}, "no step"},
		"step and turn":             {ask{caller: caller{phase: "builder_running", step: "step-001", turn: 2}}, "second turn"},
		"step alone":                {ask{caller: caller{phase: "builder_running", step: "step-001", turn: 3}}, "step"},
		"a word of the user":        {ask{text: "add a dark mode, please"}, "dark"},
		"a word in a part, a model": {ask{model: "big"}, "big"},
		"an empty step is a step":   {ask{caller: caller{agent: "planner", step: "step-002"}}, "400"},
		"nothing matches":           {ask{model: "small"}, "400"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, s.reply(tc.ask)) })
	}
}

func TestARuleThatIsUsedUpLetsTheNextAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, "rules:\n  - {reply: {text: a}, times: 2}\n  - {fault: {status: 503}, times: 1}\n  - {reply: {text: b}, times: 1}\n", t.TempDir())
	var got []string
	for range 5 {
		got = append(got, s.reply(ask{}))
	}
	require.Equal(t, []string{"a", "a", "503", "b", "400"}, got)
	var rules, status []int
	for _, l := range s.lines() {
		rules, status = append(rules, l.Rule), append(status, l.Status)
	}
	require.Equal(t, []int{1, 1, 2, 3, 0}, rules)
	require.Equal(t, []int{200, 200, 503, 200, 400}, status)
}

func TestNoMoreAnswersThanAllowedUnderManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, "rules:\n  - {reply: {text: a}, times: 10}\n  - {reply: {text: b}}\n", t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				s.reply(ask{})
			}
		})
	}
	wg.Wait()
	count := map[int]int{}
	for _, l := range s.lines() {
		count[l.Rule]++
	}
	require.Equal(t, map[int]int{1: 10, 2: 70}, count)
}

func TestARequestWithoutAMatchingRuleGetsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	s := start(t, "rules: []\n", t.TempDir())
	status, body := s.send(ask{caller: caller{run: 42, agent: "builder", phase: "builder_running", step: "step-001", attempt: 2, turn: 3}, model: "m"})
	require.Equal(t, 400, status)
	var doc struct {
		Error struct{ Message, Type, Code string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &doc))
	require.Equal(t, "no_rule", doc.Error.Code)
	require.Contains(t, doc.Error.Message, `run 42, agent "builder", phase "builder_running", step "step-001", attempt 2, turn 3, model "m"`)
	l := s.lines()[0]
	l.Time = time.Time{}
	require.Equal(t, LogEntry{Run: 42, Agent: "builder", Phase: "builder_running", Step: "step-001", Attempt: 2, Turn: 3, Model: "m", Status: 400}, l)
}

func TestTheLogHasTheFieldsOfTheDesignAndNoOthers(t *testing.T) {
	t.Parallel()
	s := start(t, "rules:\n  - reply: {text: \"12345678\"}\n", t.TempDir())
	s.reply(ask{text: strings.Repeat("x", 92)})
	data, err := os.ReadFile(s.log)
	require.NoError(t, err)
	var keys []string
	var line map[string]any
	require.NoError(t, json.Unmarshal(data, &line))
	dec := json.NewDecoder(strings.NewReader(string(data)))
	for depth := 0; ; {
		token, err := dec.Token()
		if err != nil {
			break
		}
		if key, ok := token.(string); ok && depth == 0 {
			keys = append(keys, key)
			_, _ = dec.Token()
		}
	}
	require.Equal(t, []string{"time", "run", "agent", "phase", "step", "attempt", "turn", "model", "rule", "status", "prompt_tokens", "completion_tokens"}, keys)
	require.InDelta(t, 25, line["prompt_tokens"], 0, "four characters a token: 92 and 8 of the system's")
	require.InDelta(t, 2, line["completion_tokens"], 0)
}

func TestAStreamIsWellFormedAndAddsUp(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("wörld ☃ ", 100)
	s := start(t, fmt.Sprintf("rules:\n  - reply: {text: %q}\n    usage: {prompt_tokens: 3, completion_tokens: 4}\n", text), t.TempDir())
	resp, err := http.DefaultClient.Do(ask{stream: true}.request(t.Context(), t, s.url))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	var got strings.Builder
	var finish string
	var u *wireUsage
	last := ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			require.Empty(t, lines.Text())
			continue
		}
		if last = data; data == "[DONE]" {
			continue
		}
		var c wireCompletion
		require.NoError(t, json.Unmarshal([]byte(data), &c))
		require.Equal(t, "chat.completion.chunk", c.Object)
		if c.Usage != nil {
			u = c.Usage
		}
		for _, choice := range c.Choices {
			if choice.Delta.Content != nil {
				got.WriteString(*choice.Delta.Content)
			}
			if choice.FinishReason != nil {
				finish = *choice.FinishReason
			}
		}
	}
	require.Equal(t, "[DONE]", last)
	require.Equal(t, text, got.String())
	require.Equal(t, "stop", finish)
	require.Equal(t, &wireUsage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}, u)
}

func TestLatencyDelaysItsOwnRequestOnly(t *testing.T) {
	t.Parallel()
	s := start(t, "rules:\n  - {when: {agent: planner}, latency: 1h, reply: {text: late}}\n  - {reply: {text: at once}}\n", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		wg.Go(func() { errs[i] = s.breaks(ask{caller: caller{agent: "planner"}}.request(ctx, t, s.url)) })
	}
	for range 20 {
		require.Equal(t, "at once", s.reply(ask{}))
	}
	cancel()
	wg.Wait()
	for _, err := range errs {
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestLatencyIsWaitedOut(t *testing.T) {
	t.Parallel()
	s := start(t, "rules:\n  - {latency: 60ms, reply: {text: late}}\n", t.TempDir())
	began := time.Now()
	require.Equal(t, "late", s.reply(ask{}))
	require.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)
}

func TestBodiesUpTo64MegabytesAreAccepted(t *testing.T) {
	// Not parallel: it needs much memory.
	s := start(t, "rules:\n  - {when: {contains: needle}, reply: {text: found}}\n", t.TempDir())
	hay := strings.Repeat("x", 64<<20-1024)
	require.Equal(t, "found", s.reply(ask{text: hay + "needle"}))
	status, body := s.send(ask{text: hay + strings.Repeat("x", 3<<20)})
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	require.Contains(t, body, "context_length_exceeded")
}

func TestRequestsThatAreNoneGetAnErrorAndALine(t *testing.T) {
	t.Parallel()
	s := start(t, "rules:\n  - reply: {text: a}\n", t.TempDir())
	for _, raw := range []string{"{", "[]", `{"messages": 5}`, `{"messages": [{"role": "user", "content": 5}]}`, `{"model": "m", "messages": []}`} {
		status, body := s.send(ask{raw: raw, caller: caller{run: 9}})
		require.Equal(t, 400, status, raw)
		require.Contains(t, body, `"error"`)
	}
	require.Len(t, s.lines(), 5)
	require.EqualValues(t, 9, s.lines()[4].Run)
	require.Equal(t, "a", s.reply(ask{raw: `{"messages": [{"role": "assistant", "content": null}, {"role": "user"}]}`}), "content may be missing")
}

func TestOtherAddresses(t *testing.T) {
	t.Parallel()
	s := start(t, "rules:\n  - {when: {model: special}, reply: {text: a}}\n", t.TempDir())
	get := func(path string) (int, string) {
		resp, err := http.Get(s.url + path)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	status, body := get("/healthz")
	require.Equal(t, 200, status)
	require.Equal(t, "ok\n", body)
	status, body = get("/v1/models")
	require.Equal(t, 200, status)
	require.Contains(t, body, `"id":"scripted"`)
	require.Contains(t, body, `"id":"special"`)
	for _, path := range []string{"/", "/v1/chat/completions", "/v1/responses"} {
		status, body = get(path)
		require.Equal(t, 404, status)
		require.Contains(t, body, path)
	}
	require.Empty(t, s.lines(), "only requests of models are logged")
}

func TestEmbeddingsAreDeterministicAndKnowLikeness(t *testing.T) {
	t.Parallel()
	s := start(t, "rules: []\n", t.TempDir())
	type answer struct {
		Data []struct {
			Index     int
			Embedding json.RawMessage
		}
		Usage struct {
			PromptTokens int64 `json:"prompt_tokens"`
		}
	}
	embed := func(body string) (int, answer) {
		resp, err := http.Post(s.url+"/v1/embeddings", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		var a answer
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&a))
		return resp.StatusCode, a
	}
	vector := func(raw json.RawMessage) (v []float64) {
		require.NoError(t, json.Unmarshal(raw, &v))
		return v
	}
	dot := func(a, b []float64) (sum float64) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	status, a := embed(`{"model": "e", "input": ["toggle the dark mode", "dark mode toggle", "parse a YAML file", ""]}`)
	require.Equal(t, 200, status)
	require.Len(t, a.Data, 4)
	require.Positive(t, a.Usage.PromptTokens)
	var vs [][]float64
	for i, d := range a.Data {
		require.Equal(t, i, d.Index)
		v := vector(d.Embedding)
		require.Len(t, v, 256)
		require.InDelta(t, 1, math.Sqrt(dot(v, v)), 1e-5)
		vs = append(vs, v)
	}
	require.Greater(t, dot(vs[0], vs[1]), dot(vs[0], vs[2]))

	_, again := embed(`{"model": "e", "input": "toggle the dark mode"}`)
	require.Equal(t, vs[0], vector(again.Data[0].Embedding))
	_, small := embed(`{"model": "e", "input": [1, 2, 3], "dimensions": 8}`)
	require.Len(t, vector(small.Data[0].Embedding), 8)
	_, packed := embed(`{"model": "e", "input": [[1, 2], [3]], "encoding_format": "base64", "dimensions": 8}`)
	require.Len(t, packed.Data, 2)
	var text string
	require.NoError(t, json.Unmarshal(packed.Data[0].Embedding, &text))
	raw, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	require.Len(t, raw, 4*8)
	for _, bad := range []string{`{}`, `{"input": 5}`, `{"input": []}`, `{"input": "a", "dimensions": -1}`, `{"input": "a", "dimensions": 99999999}`} {
		status, _ = embed(bad)
		require.Equal(t, 400, status, bad)
	}
	require.Len(t, s.lines(), 9)
	require.Equal(t, "e", s.lines()[0].Model)
}

func TestCloseEndsWhatWaits(t *testing.T) {
	t.Parallel()
	s := start(t, "rules:\n  - {when: {turn: 1}, fault: {timeout: true}}\n  - {latency: 1h, reply: {text: late}}\n", t.TempDir())
	var wg sync.WaitGroup
	arrived := make(chan struct{}, 2)
	errs := make([]error, 2)
	for turn := range 2 {
		wg.Go(func() {
			req := ask{caller: caller{turn: turn + 1}}.request(t.Context(), t, s.url)
			req.Body = &signalled{ReadCloser: req.Body, done: arrived}
			errs[turn] = s.breaks(req)
		})
	}
	<-arrived
	<-arrived
	await.Until(t, "both requests", func() bool { return s.underWay() == 2 })
	s.stop()
	wg.Wait()
	require.Error(t, errs[0])
	require.Error(t, errs[1])
	lines := s.lines()
	require.Len(t, lines, 2, "their lines are written before the log is closed")
	for _, l := range lines {
		require.Contains(t, []int{StatusDropped, StatusClientGone}, l.Status)
	}
}

// signalled reports when a request's body was read to its end.
type signalled struct {
	io.ReadCloser
	done chan struct{}
	once sync.Once
}

func (s *signalled) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.once.Do(func() { s.done <- struct{}{} })
	}
	return n, err
}

func TestALogThatCannotBeOpenedIsAConfigurationError(t *testing.T) {
	t.Parallel()
	sc, err := Parse("s", []byte("rules: []"))
	require.NoError(t, err)
	for _, path := range []string{t.TempDir(), t.TempDir() + "/missing/log.jsonl"} {
		_, err = New(sc, Options{LogPath: path})
		require.ErrorContains(t, err, "CONFIG_ERROR")
		require.ErrorContains(t, err, path)
	}
}

func BenchmarkRequests(b *testing.B) {
	for _, stream := range []bool{false, true} {
		b.Run(fmt.Sprintf("stream=%v", stream), func(b *testing.B) {
			s := start(b, "rules:\n  - {when: {agent: tester}, reply: {text: x}}\n  - {when: {contains: dark}, reply: {json: {summary: done, steps: [{id: step-001, name: a}]}}}\n", b.TempDir())
			transport := &http.Transport{MaxIdleConnsPerHost: 64}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			text := strings.Repeat("some code of a repository ", 200) + "dark mode"
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					resp, err := client.Do(ask{text: text, stream: stream}.request(context.Background(), b, s.url))
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// BenchmarkHandler leaves the network out: it measures the cost of an answer itself.
func BenchmarkHandler(b *testing.B) {
	sc, err := Parse("s", []byte("rules:\n  - {when: {contains: dark}, reply: {json: {summary: done}}}\n"))
	require.NoError(b, err)
	server, err := New(sc, Options{LogPath: b.TempDir() + "/log.jsonl"})
	require.NoError(b, err)
	defer func() { _ = server.Close() }()
	text := strings.Repeat("some code of a repository ", 200) + "dark mode"
	b.ReportAllocs()
	for b.Loop() {
		server.ServeHTTP(httptest.NewRecorder(), ask{text: text}.request(context.Background(), b, ""))
	}
}
