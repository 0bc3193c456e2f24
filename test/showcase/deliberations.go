package showcase

import (
	"context"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// deliberations writes pipelines in every status, the oldest first. They are written after the
// runs, so they do not affect the numbers of runs.
func (f *dataset) deliberations(ctx context.Context) error {
	for _, one := range []struct {
		ago  time.Duration
		tell func(*runWriter)
	}{
		{11 * time.Hour, f.agreesOnCaching}, {9 * time.Hour, f.timesOutAndRecovers}, {7 * time.Hour, f.validated}, {6 * time.Hour, f.getsStuck},
		{5 * time.Hour, f.neverAgrees}, {4 * time.Hour, f.bothDie}, {3 * time.Hour, f.isStopped}, {2 * time.Hour, f.fromTheRight},
		{50 * time.Minute, f.onePartnerLeft}, {25 * time.Minute, f.waitsToContinue}, {2 * time.Minute, f.mediates}, {40 * time.Second, f.opens}, {8 * time.Second, f.isSpawned},
	} {
		t := &runWriter{ctx: ctx, f: f, now: f.now.Add(-one.ago)}
		one.tell(t)
		if err := t.backdate(); err != nil {
			return err
		}
	}
	for _, last := range f.later {
		if err := last(); err != nil {
			return err
		}
	}
	return nil
}

const caching = `Cache the answer of GET /catalogue/{id} in two layers.

1. In the process: 10,000 entries, 30 s, admission by frequency (TinyLFU), so that a crawl does not empty it.
2. In Redis: 10 min, keyed by catalogue version. A change of the catalogue raises the version; nothing is deleted.
3. One refresh for each key at a time (singleflight), and a stale answer for at most 60 s while it runs.
4. Without Redis the service works on with the first layer; the health check says degraded.

Measure: hit rate of each layer, p99 of a miss, stale answers served. Go back by one flag, cache.layers=0.

What was left out, and why:
- Invalidation by events: the outbox has a delay of up to 40 s, longer than the first layer keeps anything.
- A CDN: prices depend on the customer's contract, so 71 % of answers could not be shared.
- Memcached: it has no scripts, and the version check would be two round trips.

Success criteria:
- p99 under 40 ms at 900 requests a second: the replay of Tuesday's traffic gives 31 ms.
- no answer older than 60 s: by construction, as the sum of both waits.
- no more than 2 GB in Redis: 1.1 GB at three times today's catalogue.
`

// agreesOnCaching is the ideal case: two proposals, one synthesis, and one more round.
func (f *dataset) agreesOnCaching(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{
		TaskID: "CACHE-118", Objective: "Design a caching strategy for the catalogue service\n\n900 requests a second at noon, 40 ms for the slowest hundredth, and nobody may see a price that is older than a minute.", Complexity: 0.6,
		Constraints:     []string{"Redis 7 is there, nothing else may be added", "no change of the public API"},
		SuccessCriteria: []string{"p99 under 40 ms at 900 requests a second", "no answer older than 60 s", "at most 2 GB in Redis"},
		Subtasks:        []contract.Subtask{{ID: "layers", Description: "Which layers, and how long each keeps an answer"}, {ID: "invalidation", Description: "How a changed price gets out", Dependencies: []string{"layers"}}},
	}, auto)
	c.wait(300 * time.Millisecond)
	c.begins()
	c.thinksFor(contract.Alpha, 9*time.Second, "The load is read-heavy; 96 % of requests ask for 4 % of the articles.")
	c.writes(contract.Alpha, contract.MoveAnalyse, "analysis", "Read-heavy: 96 % of requests ask for 4 % of the articles. Writes come in two bursts a day. The hard part is not the cache but how a changed price gets out of it within a minute.", complexity(0.62))
	c.writes(contract.Alpha, contract.MovePropose, "two-layers", "A small layer in the process and a larger one in Redis, keyed by a version of the catalogue. A change raises the version; nothing is deleted, so nothing can be forgotten.")
	c.thinksFor(contract.Beta, 3*time.Second, "Invalidation decides this.")
	c.writes(contract.Beta, contract.MoveAnalyse, "analysis.BETA", "The outbox tells of changes with up to 40 s of delay. Whatever is built on its events cannot promise a minute together with a process cache of 30 s.", complexity(0.55))
	c.writes(contract.Beta, contract.MovePropose, "events", "Redis alone, emptied by the events of the outbox, with a time to live of 45 s as the last word.")
	c.conflict(1, 0)
	c.opened(false)
	c.exchanges()
	c.thinksFor(contract.Alpha, 6*time.Second, "Weighing the other proposal.")
	c.writes(contract.Alpha, contract.MoveEvaluate, "events", "Simple, but every miss goes to the database: 36 requests a second at noon, 400 after a burst of writes.", scored(0.45))
	c.says(contract.Alpha, contract.Beta, "How old may an answer be in the worst case with the outbox at its slowest? I come to 85 s: 40 s of delay and 45 s of life.")
	c.thinksFor(contract.Beta, 5*time.Second, "85 seconds, that is too long.")
	c.says(contract.Beta, contract.Alpha, "85 s, yes. That breaks the second criterion. I take versions from yours, and keep the time to live as the bound.")
	c.writes(contract.Beta, contract.MoveSynthesise, "s1", "Two layers keyed by version, with a time to live in both. Singleflight for refreshes.", from("two-layers", "events"))
	c.conflict(0, 1)
	c.rounds(1)
	c.recordsEvent()
	c.thinksFor(contract.Alpha, 7*time.Second, "What happens while Redis is away?")
	c.thinksOf(contract.Alpha, "s1", 1, false, "It does not say what happens while Redis is away.")
	c.writes(contract.Alpha, contract.MoveObject, "s1", "Without Redis every request would wait for its time-out. It must go on without.")
	c.conflict(1, 0)
	c.thinksFor(contract.Beta, 8*time.Second, "Then the second layer must be optional.")
	c.writes(contract.Beta, contract.MoveSynthesise, "s1", caching, from("two-layers", "events"))
	c.writes(contract.Beta, contract.MoveResolve, "s1/objection/ALPHA-3-1", "Without Redis the first layer is enough for four minutes of noon; version 2 says so, and what the health check shows then.")
	c.becomes("s1/objection/ALPHA-3-1", contract.EntryAnswered)
	c.becomes("s1", contract.EntryLive)
	c.conflict(0, 1)
	c.says(contract.Beta, "", "s1 has what it needs now: degraded without Redis, and a flag to go back.")
	c.thinksOf(contract.Beta, "s1", 2, true, "All three criteria are met, by construction or by the replay of Tuesday's traffic.")
	c.rounds(1)
	c.recordsEvent()
	c.thinksFor(contract.Alpha, 4*time.Second, "I accept.")
	c.thinksOf(contract.Alpha, "s1", 2, true, "")
	c.agrees("", "s1", caching)
	c.past(at)
}

// auto makes a pipeline continue automatically.
func auto(s *contract.DeliberationSettings) { s.AutoContinue = true }

// timesOutAndRecovers times out; its recovery reaches a consensus with GAMMA's help.
func (f *dataset) timesOutAndRecovers(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "Choose how tenants are kept apart in the reporting database", SuccessCriteria: []string{"no query of a tenant sees rows of another", "a tenant can be restored alone"}, TimeoutSeconds: 90}, auto)
	c.begins()
	c.thinksFor(contract.Alpha, 11*time.Second, "")
	c.writes(contract.Alpha, contract.MovePropose, "rls", "One schema, row-level security, and a role for each tenant's connection.")
	c.thinksFor(contract.Beta, 14*time.Second, "")
	c.writes(contract.Beta, contract.MovePropose, "schemas", "A schema for each tenant: restoring one is restoring its schema.")
	c.conflict(1, 0)
	c.opened(false)
	c.exchanges()
	for i := range 3 {
		c.thinksFor(contract.Alpha, 16*time.Second, "")
		c.says(contract.Alpha, contract.Beta, []string{"4,100 tenants, 90 tables: that is 369,000 relations. The catalogue of Postgres will not like that.", "Restoring one tenant is a filtered copy from a backup. It took 11 minutes for the largest one.", "How long does a migration take over 4,100 schemas?"}[i])
		c.thinksFor(contract.Beta, 12*time.Second, "")
		c.says(contract.Beta, contract.Alpha, []string{"We have 380 that report at all. The others never log in.", "A filtered copy is what people do at three in the morning, and get wrong.", "Two hours, in batches. It could run by night."}[i])
		c.rounds(1)
	}
	c.writes(contract.Beta, contract.MoveSynthesise, "s1", "Row-level security for the many, a schema of their own for the twenty largest.", from("rls", "schemas"))
	c.thinksOf(contract.Alpha, "s1", 1, false, "Two ways to do one thing are two ways to get it wrong.")
	c.recordsEvent()
	c.givesUp(contract.PipelineTimeout, contract.AbortTimeout, "Both want the same criterion, restoring one tenant, by different means: weigh the means by how often that is done.")
	next := c.recovers()
	next.wait(2 * time.Second)
	next.thinksFor(contract.Alpha, 8*time.Second, "")
	next.says(contract.Alpha, contract.Gamma, "How often was a tenant restored last year? That decides it.")
	next.thinksFor(contract.Beta, 6*time.Second, "")
	next.writes(contract.Beta, contract.MoveSynthesise, "s2", "Row-level security for all, and a tested command that restores one tenant from the nightly backup.", from("inherited_alpha_rls"))
	next.opened(false)
	next.exchanges()
	next.thinksFor(contract.Gamma, 5*time.Second, "")
	next.says(contract.Gamma, "", "Three times in a year. A command that is tested every night is enough for that.")
	next.thinksOf(contract.Alpha, "s2", 1, true, "With the command tested every night, yes.")
	next.thinksOf(contract.Beta, "s2", 1, true, "")
	next.rounds(1)
	next.agrees("", "s2", "Row-level security for all tenants, one role for each connection, and `rgpt-restore tenant` that is tested every night against the last backup.")
	c.past(at)
	next.past(c.now.Add(-40 * time.Second))
}

// validated has a complex objective: GAMMA joins early and decides.
func (f *dataset) validated(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "Replace the nightly settlement batch with a stream, without ever paying twice and without a window in which nothing is paid, across two regions that are 80 ms apart and a ledger that only takes whole days", Complexity: 0.9}, auto)
	c.begins()
	c.thinksFor(contract.Alpha, 21*time.Second, "")
	c.writes(contract.Alpha, contract.MoveAnalyse, "analysis", strings.Repeat("The ledger closes at midnight of the merchant's zone, the stream knows only UTC, and both regions may see the same payment. ", 9), complexity(0.93))
	c.gamma(contract.GammaComplexity)
	c.joins(contract.Gamma)
	for i, key := range []string{"outbox", "two-phase", "daily-cut"} {
		c.writes([]contract.Member{contract.Alpha, contract.Beta, contract.Beta}[i], contract.MovePropose, key, []string{
			"One outbox for each region, merged by payment id; the first that is written wins.", "Two-phase commit over both regions.", "Keep the day as the unit: the stream only fills it, the ledger closes it.",
		}[i])
	}
	c.conflict(1, 0)
	c.thinksFor(contract.Beta, 18*time.Second, "")
	c.opened(false)
	c.exchanges()
	c.thinksFor(contract.Gamma, 9*time.Second, "")
	c.writes(contract.Gamma, contract.MoveEvaluate, "two-phase", "160 ms for each payment, and a region that is away stops both.", scored(0.1))
	c.becomes("two-phase", contract.EntryWithdrawn)
	c.says(contract.Gamma, "", "Nobody needs two-phase commit if a payment has one home. Say which region is the home of a payment.")
	for i := range 6 {
		c.thinksFor(contract.Alpha, 7*time.Second, "")
		c.says(contract.Alpha, contract.Beta, []string{"The region in which the card was read.", "What if that is neither, for a web shop?", "Then the hash of the merchant. Stable, and both know it.", "A merchant may move.", "Moving is an event like others, with a day as its border.", "Then the day is the unit after all."}[i])
		c.thinksFor(contract.Beta, 6*time.Second, "")
		c.says(contract.Beta, "", []string{"I can live with that.", "Hash of the merchant?", "Yes.", "At midnight then.", "I write it down.", "s1 says so."}[i])
	}
	c.writes(contract.Beta, contract.MoveSynthesise, "s1", "A payment has one home, the hash of its merchant; the stream fills days, the ledger closes them.", from("outbox", "daily-cut"))
	c.refuses(contract.Beta, contract.ClassLLM, contract.CodeInvalidOutput, `vote: there is no synthesis "s2" to vote on; there is s1`)
	c.thinksOf(contract.Alpha, "s1", 1, true, "")
	c.thinksOf(contract.Beta, "s1", 1, true, "The replay of March pays every payment once.")
	c.rounds(4)
	c.recordsEvent()
	c.thinksFor(contract.Gamma, 11*time.Second, "")
	c.agrees(contract.Gamma, "s1", "Verdict: s1, with one condition. A merchant that moves keeps its home until its day is closed in both regions.")
	c.past(at)
}

// getsStuck has an agent whose model responds more and more slowly; it is not recovered.
func (f *dataset) getsStuck(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "Find out why p99 doubles every Thursday at 14:00"}, func(s *contract.DeliberationSettings) { s.AutoContinue, s.Recoveries = true, 0 })
	c.begins()
	c.thinksFor(contract.Alpha, 12*time.Second, "")
	c.writes(contract.Alpha, contract.MovePropose, "vacuum", "The weekly VACUUM FULL of the audit table takes a lock that the login waits for.")
	c.thinksFor(contract.Beta, 25*time.Second, "")
	c.says(contract.Beta, contract.Alpha, "The lock is held for 40 s. The slow time is 20 minutes.")
	c.opened(false)
	c.exchanges()
	c.refuses(contract.Beta, contract.ClassLLM, contract.CodeInvalidOutput, "the answer is not JSON: it ends in the middle of a text")
	c.refuses(contract.Beta, contract.ClassSafety, contract.CodeForbidden, "verdict: only GAMMA gives verdicts")
	c.wait(31 * time.Second)
	c.member(contract.Alpha).BlockedReason = "waits for BETA's reply to its message 2"
	c.joins(contract.Gamma)
	c.gamma(contract.GammaStuck)
	c.rounds(1)
	c.recordsEvent()
	c.wait(30 * time.Second)
	c.givesUp(contract.PipelineOrchestrationFailed, contract.AbortStuck, "BETA's model responded late or not at all: try another model for BETA.")
	c.past(at)
}

// neverAgrees uses all its rounds.
func (f *dataset) neverAgrees(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "Tabs or spaces for generated code: settle it once and for all services, and say why"}, func(s *contract.DeliberationSettings) { s.AutoContinue, s.Recoveries = true, 0 })
	c.begins()
	for i, key := range []string{"tabs", "spaces", "gofmt", "editorconfig"} {
		who := []contract.Member{contract.Alpha, contract.Beta}[i%2]
		c.thinksFor(who, 4*time.Second, "")
		c.writes(who, contract.MovePropose, key, "Because of "+key+". Everything else follows from that.")
	}
	c.conflict(1, 0)
	c.opened(false)
	c.exchanges()
	c.joins(contract.Gamma)
	c.gamma(contract.GammaConflict)
	for i := range 10 {
		c.thinksFor(contract.Alpha, 3*time.Second, "")
		c.writes(contract.Alpha, contract.MoveSynthesise, "s1", "Tabs in Go, and in the rest what the language's own tool writes.", from("tabs"))
		c.thinksOf(contract.Alpha, "s1", i+1, true, "")
		c.thinksFor(contract.Beta, 3*time.Second, "")
		c.thinksOf(contract.Beta, "s1", i+1, false, "This is "+strings.Repeat("still ", i)+"not a rule for all services.")
		c.conflict(1, 0)
		for range 3 {
			c.says(contract.Alpha, contract.Beta, "The tool decides. Nobody has to agree with it.")
			c.says(contract.Beta, "", "Then it is the tool's taste, and there are nine tools.")
		}
		c.rounds(1)
	}
	c.recordsEvent()
	c.givesUp(contract.PipelineOrchestrationFailed, contract.AbortIterationLimit, "The success criteria do not say what 'once and for all' weighs: name them.")
	c.past(at)
}

// bothDie has no provider.
func (f *dataset) bothDie(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "Plan the move of the search index to the new cluster"}, auto)
	c.begins()
	c.wait(4 * time.Second)
	for _, who := range []contract.Member{contract.Alpha, contract.Beta} {
		c.dies(who, fail(contract.ClassConfig, contract.CodeUnauthorized, "openai rejected the API key for the model of "+string(who)+" (401); set OPENAI_API_KEY to a valid one", "401 invalid_api_key"))
	}
	c.failure = fail(contract.ClassConfig, contract.CodeUnauthorized, "no agent was left: openai rejected the API key of both (401); set OPENAI_API_KEY to a valid key, then spawn the pipeline again", "401 invalid_api_key")
	c.givesUp(contract.PipelineFailed, "", "Fix the cause of both failures; nothing has been decided yet.")
	c.past(at)
}

// isStopped is stopped by a person before it finishes.
func (f *dataset) isStopped(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "Compare three vendors for e-mail delivery"}, auto)
	c.begins()
	c.thinksFor(contract.Alpha, 9*time.Second, "")
	c.writes(contract.Alpha, contract.MovePropose, "vendor-b", "B: the only one with an address in the EU and a limit that fits the newsletter.")
	c.wait(5 * time.Second)
	c.failure = fail(contract.ClassHuman, contract.CodeCancelled, "stopped by mara (the decision was made elsewhere); partial results are kept", "")
	c.closes(contract.PipelineStopped, "partial", "Stopped by mara: the decision was made elsewhere. One proposal was on the blackboard.")
	c.past(at)
}

// fromTheRight is written from right to left, with long words that cannot be broken.
func (f *dataset) fromTheRight(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "اختيار استراتيجية للترجمة الآلية في صفحات المساعدة، مع الحفاظ على المصطلحات (glossary v2.4) وسهولة المراجعة", Constraints: []string{"لا تُرسل بيانات العملاء إلى الخارج"}}, auto)
	c.begins()
	c.thinksFor(contract.Alpha, 9*time.Second, "")
	c.writes(contract.Alpha, contract.MovePropose, "glossary-first-then-memory-then-machine-translation-v2.4_final", "نبدأ بالمصطلحات، ثم ذاكرة الترجمة، ثم الترجمة الآلية للباقي فقط. "+strings.Repeat("Donaudampfschifffahrtsgesellschaftskapitän", 5))
	c.says(contract.Alpha, contract.Beta, "ما رأيك في حجم الذاكرة؟ لدينا 1,234,567 جملة.")
	c.thinksFor(contract.Beta, 7*time.Second, "")
	c.writes(contract.Beta, contract.MoveSynthesise, "s1", "المصطلحات أولًا، وكل ترجمة آلية تُراجَع قبل النشر.", from("glossary-first-then-memory-then-machine-translation-v2.4_final"))
	c.opened(false)
	c.exchanges()
	c.thinksOf(contract.Alpha, "s1", 1, true, "نعم")
	c.thinksOf(contract.Beta, "s1", 1, true, "")
	c.rounds(1)
	c.agrees("", "s1", "المصطلحات أولًا، وكل ترجمة آلية تُراجَع قبل النشر.")
	c.past(at)
}

// onePartnerLeft continues with only BETA.
func (f *dataset) onePartnerLeft(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "Decide which of the 212 feature flags can go"}, auto)
	c.begins()
	c.thinksFor(contract.Beta, 9*time.Second, "")
	c.writes(contract.Beta, contract.MovePropose, "older-than-a-year", "All that are older than a year and have had one value everywhere for 90 days: 140 of them.")
	c.dies(contract.Alpha, fail(contract.ClassInfra, contract.CodeRateLimited, "openai still limits the request rate after 5 attempts; give ALPHA another model or wait", "429"))
	c.opened(false)
	c.exchanges()
	c.thinksFor(contract.Beta, 9*time.Second, "")
	c.writes(contract.Beta, contract.MoveSynthesise, "s1", "Remove 140 flags in four batches, each behind its own release.", from("older-than-a-year"))
	c.thinksOf(contract.Beta, "s1", 1, true, "")
	c.rounds(1)
	c.agrees("", "s1", "Remove 140 flags in four batches, each behind its own release.")
	c.past(at)
}

// waitsToContinue has shown its report and waits for a person.
func (f *dataset) waitsToContinue(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "Choose the database of the new ledger: Postgres as it is, Postgres with Citus, or CockroachDB"}, func(s *contract.DeliberationSettings) { s.AutoContinue, s.ContinueWait = false, 3*time.Hour })
	c.begins()
	c.thinksFor(contract.Alpha, 22*time.Second, "")
	c.writes(contract.Alpha, contract.MoveAnalyse, "analysis", "40 million entries a year is little. One large Postgres does that for ten years; what counts is how it fails over.", complexity(0.7))
	c.writes(contract.Alpha, contract.MovePropose, "postgres", "Postgres as it is, with a synchronous standby in the second zone.")
	c.thinksFor(contract.Beta, 28*time.Second, "")
	c.member(contract.Beta).Status = contract.MemberTimedOut
	c.opened(true)
	c.past(at)
}

// mediates is in progress; GAMMA mediates between two members that are stuck in a conflict.
func (f *dataset) mediates(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "Agree on one retry policy for all outgoing webhooks", SuccessCriteria: []string{"a receiver that is away for a day misses nothing", "one that is slow holds nobody up"}}, auto)
	c.begins()
	c.thinksFor(contract.Alpha, 8*time.Second, "")
	c.writes(contract.Alpha, contract.MovePropose, "exponential", "Ten attempts over a day, with growing waits and chance in them.")
	c.thinksFor(contract.Beta, 7*time.Second, "")
	c.writes(contract.Beta, contract.MovePropose, "queue-per-receiver", "A queue for each receiver; who is slow waits for itself alone.")
	c.writes(contract.Beta, contract.MovePropose, "pull", "Receivers fetch what they missed. Nothing is retried.")
	c.conflict(1, 0)
	c.opened(false)
	c.exchanges()
	c.joins(contract.Gamma)
	c.gamma(contract.GammaConflict)
	c.member(contract.Gamma).Phase = "exchange"
	c.thinksFor(contract.Alpha, 8*time.Second, "")
	c.says(contract.Alpha, contract.Beta, "Pulling does not help a receiver that does not know that it missed something.")
	c.writes(contract.Alpha, contract.MoveObject, "pull", "A receiver that was away does not know what it missed.")
	c.conflict(1, 0)
	c.thinksFor(contract.Beta, 9*time.Second, "")
	c.writes(contract.Beta, contract.MoveSynthesise, "s1", "Growing waits over a day, in a queue for each receiver.", from("exponential", "queue-per-receiver"))
	c.thinksOf(contract.Beta, "s1", 1, true, "")
	c.rounds(2)
	c.thinksFor(contract.Gamma, 6*time.Second, "")
	c.says(contract.Gamma, "", "s1 has what both of you want. ALPHA: is there anything in it that you cannot accept?")
	c.member(contract.Alpha).Status = contract.MemberThinking
	c.member(contract.Beta).BlockedReason = "waits for the vote of ALPHA on s1 v1"
	c.recordsEvent()
	c.past(at)
}

// opens has both agents doing their opening turns.
func (f *dataset) opens(t *runWriter) {
	at := t.now
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "Write down how we name things in events"}, nil)
	c.begins()
	c.past(at)
}

// isSpawned waits for its workflow to start.
func (f *dataset) isSpawned(t *runWriter) {
	c := f.newDeliberation(t, contract.DeliberationTask{Objective: "Split the monolith's scheduler out, or leave it"}, nil)
	c.past(t.now)
}

// plansByDeliberation is a run whose plan is the result of a deliberation.
func (f *dataset) plansByDeliberation(n int) scenario {
	return func(ctx context.Context, number int64, at time.Time) error {
		r := chance(number)
		t, plan := f.ordinary(ctx, n, at)
		e := t.starts(contract.PhasePlanner)
		p := t.asksForPlan(e)
		began := t.now
		c := t.deliberates(e)
		c.begins()
		c.thinksFor(contract.Alpha, 8*time.Second, "")
		c.writes(contract.Alpha, contract.MovePropose, "tokens-first", "Gather all colours as tokens first; everything after that is small.")
		c.thinksFor(contract.Beta, 6*time.Second, "")
		c.writes(contract.Beta, contract.MoveSynthesise, "s1", "Tokens, then their dark values, then the switch.", from("tokens-first"))
		c.opened(false)
		c.exchanges()
		c.thinksOf(contract.Alpha, "s1", 1, true, "")
		c.thinksOf(contract.Beta, "s1", 1, true, "")
		c.rounds(1)
		c.agrees("", "s1", "Tokens, then their dark values, then the switch.")
		c.past(began)
		t.now = t.thinks(e, t.run.Settings.Models[contract.AgentPlanner], p.Version, 1, t.now, turn{say: jsonOf(plan), in: 8200, out: 900, took: 9 * time.Second})
		t.takesPlan(e, plan)
		patch := t.implements(r, plan)
		t.starts(contract.PhaseTester)
		t.tested(t.checks(verifies(number, tests(r, 80, nil))...))
		t.completesRelease(patch)
		t.score(0.93)
		return t.backdate()
	}
}

// planning is a run that ALPHA and BETA are planning. Their pipeline is the newest one, so it is
// written last.
func (f *dataset) planning(ctx context.Context, _ int64, at time.Time) error {
	t, _ := f.ordinary(ctx, 7, at)
	e := t.starts(contract.PhasePlanner)
	t.asksForPlan(e)
	f.later = append(f.later, func() error {
		t.now = f.now.Add(-6 * time.Second)
		began := t.now
		c := t.deliberates(e)
		c.begins()
		c.thinksFor(contract.Alpha, 2*time.Second, "")
		c.writes(contract.Alpha, contract.MovePropose, "journal", "Keep drafts in a journal that is written before the screen changes.")
		c.recordsEvent()
		c.past(began)
		return t.backdate()
	})
	return nil
}

// deliberates writes a deliberation with every kind of record, in which every text is the given
// one.
func (f *dataset) deliberates(ctx context.Context, at time.Time, text string) error {
	t := &runWriter{ctx: ctx, f: f, now: at}
	c := f.newDeliberation(t, contract.DeliberationTask{
		TaskID: text, Objective: text + "\n" + text, Complexity: 0.9, Constraints: []string{text}, SuccessCriteria: []string{text},
		Subtasks: []contract.Subtask{{ID: text, Description: text, Status: text, Dependencies: []string{text}}},
	}, func(s *contract.DeliberationSettings) {
		for _, m := range contract.Members() {
			s.Models[m.Agent()] = contract.ModelChoice{Provider: "ollama", Model: text}
		}
	})
	c.begins()
	c.writes(contract.Alpha, contract.MoveAnalyse, text, text, complexity(0.9))
	c.writes(contract.Alpha, contract.MovePropose, text, text)
	c.writes(contract.Beta, contract.MovePropose, text+"2", strings.Repeat(text+"\n", 30))
	c.writes(contract.Beta, contract.MoveEvaluate, text, text, scored(0.2))
	c.writes(contract.Beta, contract.MoveObject, text, text)
	c.writes(contract.Beta, contract.MoveSynthesise, text, text, from(text, text+"2"))
	c.writes(contract.Beta, contract.MoveSynthesise, text, text+" again", from(text))
	for _, who := range []contract.Member{contract.Alpha, contract.Beta} {
		c.says(who, contract.Gamma, text)
		c.says(who, "", strings.Repeat(text+"\n", 30))
		c.thinksOf(who, text, 1, who == contract.Alpha, text)
		c.refuses(who, contract.ClassLLM, contract.Code(cut(oneLine(text), 60)), text)
		c.member(who).BlockedReason, c.member(who).Role = text, text
	}
	c.opened(false)
	c.exchanges()
	c.joins(contract.Gamma)
	c.gamma(contract.GammaReason(text))
	c.dies(contract.Gamma, fail(contract.ClassLLM, contract.CodeInvalidOutput, text, text))
	c.rounds(1)
	c.asks = text
	c.recordsEvent()
	c.asks = ""
	c.failure = fail(contract.ClassLLM, contract.CodeInvalidOutput, text, text)
	c.givesUp(contract.PipelineOrchestrationFailed, contract.AbortStuck, text)
	next := c.recovers()
	next.writes(contract.Beta, contract.MoveSynthesise, text, text)
	next.opened(true)
	next.reports("checkpoint", text)
	c.past(at)
	next.past(at.Add(time.Minute))
	return t.backdate()
}
