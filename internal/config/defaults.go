package config

import "time"

// Default returns the default settings, which are usable unchanged.
func Default() *Config {
	check := func(severity string) Check {
		return Check{Enabled: Auto, Format: "auto", Severity: severity, Network: []string{}}
	}
	return &Config{
		Execution: Execution{
			ConcurrentRuns: 32,
			ParallelSteps:  4,
			ChecksTogether: 4,
			MaxRetries:     3,
			MaxGoalBytes:   32 * KiB,
			Pictures:       Pictures{Max: 5, MaxSize: 4 * MiB, Repair: 2},
			CommandTimeout: 5 * time.Minute,
			Planner:        PlannerLimits{Turns: 12, Tokens: 400_000, CostUSD: 5 * USD, Critique: "auto", Question: true, QuestionDeadline: time.Hour, Edits: 32 * KiB},
			Step:           StepLimits{Turns: 40, Tokens: 400_000, CostUSD: 5 * USD, Time: 30 * time.Minute, LoopLimit: 5, ErrorLimit: 3, CompactAt: 0.75, FinishChecks: true, FinishRefusals: 2},
			Agent:          AgentLimits{Errors: 8, Repeats: 2, Violations: 1},
			Run:            RunLimits{Tokens: 4_000_000, CostUSD: 25 * USD, Time: 72 * time.Hour},
			Agents:         map[string]AgentBudget{},
			Attempts:       Attempts{Count: 1, Max: 5, Models: []string{}, Judge: "planner", SizeMargin: 0.25},
			Sandbox: Sandbox{
				Runner: RunnerProcess, Docker: Docker{Warm: 2, Pull: PullNever, PullTimeout: 15 * time.Minute, Build: Build{
					Timeout: 30 * time.Minute, ContextSize: 256 * MiB, Network: "none", Memory: 4 * GiB, Log: 4 * KiB, Age: 7 * 24 * time.Hour,
				}},
				Memory: 4 * GiB, Processes: 512, CPUTime: 40 * time.Minute,
				FileSize: 512 * MiB, Disk: 4 * GiB, Output: MiB, ReadOnly: []string{}, Network: []string{},
				CacheAge: 14 * 24 * time.Hour, CacheSize: 20 * GiB,
			},
			Approval:     Approval{Wait: 24 * time.Hour},
			Intervention: Intervention{Wait: 24 * time.Hour},
			QuotaWait:    time.Hour,
		},
		Findings: Findings{MaxMajor: 0, MaxMedium: 10},
		Verification: Verification{
			AutoDetect: true, Shards: 1, Timeout: 15 * time.Minute, RerunFailed: 1, Recordings: "rerun", PinnedTests: "enforce", ProveNewTests: "warn",
			Baseline: "on", BaselineRed: "continue", Coverage: "off",
			Flaky: Flaky{
				Window: 30 * 24 * time.Hour, History: 90 * 24 * time.Hour, Quarantine: "suggest", QuarantineAfter: 2,
				QuarantineFor: 14 * 24 * time.Hour, QuarantineMax: 90 * 24 * time.Hour, MaxQuarantined: 100, ReadyAfter: 20,
			},
			Build: check("major"), Test: check("major"), Lint: check("minor"), Security: check("medium"),
			Custom: []CustomCheck{},
		},
		Environment: Environment{
			Enabled: true, Setup: []string{}, Variables: map[string]string{}, Timeout: 20 * time.Minute, AgentTurns: 12,
			Disk: 20 * GiB, Count: 50, Age: 720 * time.Hour,
			Cache:   []string{},
			Network: EnvironmentNetwork{Hosts: []string{}, Credentials: []HostCredential{}, AllowPrivate: []string{}},
		},
		Git: Git{
			BranchPrefix: "rgpt/run-", AuthorName: "RocketGPT", AuthorEmail: "rgpt@localhost", MaxRepairs: 3, MaxFiles: 500_000, MaxSize: 20 * GiB,
			Protected: ProtectedFiles(), Release: ReleaseBranch,
			ChangeSet: ChangeSet{Max: 10, Incomplete: "draft", Wait: 24 * time.Hour, Follow: 336 * time.Hour},
			PullRequest: PullRequest{Draft: "gate", Labels: []string{"rgpt"}, Reviewers: []string{}, CodeOwners: true, Statuses: true, Comments: true, CloseIssue: true, CommentIssue: true, Mention: "@rgpt", Ignore: []string{}, Commenters: "write", Update: "merge", UpdateWhen: "conflict", UpdateInterval: 10 * time.Minute, MaxUpdates: 20, Merge: Merge{
				When: MergeNever, Method: "merge", DeleteBranch: true, Labels: []string{}, BlockedLabels: []string{}, Checks: []string{},
				Batch: 8, CheckTime: time.Hour, CheckPoll: 15 * time.Second, Prefix: "rgpt/queue/",
			}},
		},
		Gate: Gate{
			Policy: "default", Approver: ApproverAnyone, Timeout: 2 * time.Second, Memory: 512 * MiB, Allowed: []string{},
			Limits: GateLimits{Files: 500, Deletions: 50, Lines: 50_000, FileBytes: 10 * MiB, Bytes: 100 * MiB},
			Labels: GateLabels{
				Allowed: []string{}, Automerge: []string{"automerge"}, Blocked: []string{"blocked", "do-not-merge"}, Review: []string{"needs-review"},
			},
			Review: "off", ReviewRounds: 1, ReviewDiff: 192 * KiB, ReviewTimeout: 5 * time.Minute,
			Dependencies: GateDependencies{
				MinAge: 72 * time.Hour, Private: []string{}, Packages: 200, Timeout: 5 * time.Second, Total: 20 * time.Second,
				Registries: GateRegistries{
					Go: "https://proxy.golang.org", NPM: "https://registry.npmjs.org", PyPI: "https://pypi.org", Crates: "https://index.crates.io",
					Maven: "https://repo1.maven.org/maven2", RubyGems: "https://rubygems.org", Composer: "https://repo.packagist.org", NuGet: "https://api.nuget.org",
				},
			},
		},
		Forges:        map[string]Forge{},
		Triggers:      map[string]Trigger{},
		Notifications: map[string]Notification{},
		Artifacts:     Artifacts{MaxFile: 512 * MiB, MaxCheckFiles: 200, MaxCheckSize: GiB, MaxRunFiles: 5000, MaxRunSize: 8 * GiB},
		Brain: Brain{
			MaxFile: MiB, Disk: 10 * GiB, History: 5000, Workers: 0, MapTokens: 1000, AnswerTokens: 2000, Wait: 20 * time.Second, PrepareTime: 10 * time.Minute, Age: 60 * 24 * time.Hour,
			Embeddings: BrainEmbeddings{MaxTexts: 500_000, MaxSize: 200 * MiB, MaxCostUSD: 2_000_000, MaxTime: 30 * time.Minute, Wait: 3 * time.Second},
			Rerank:     BrainRerank{Files: 20, Excerpt: 600, MaxCostUSD: 100_000, Wait: 10 * time.Second},
		},
		Retention: Retention{Every: 24 * time.Hour, QueueAge: 90 * 24 * time.Hour},
		Ledger:    Ledger{CheckpointEvery: 24 * time.Hour},
		Logging:   Logging{Level: "info", Format: "auto", MaxSize: 100 * MiB, MaxAge: 7 * 24 * time.Hour, MaxFiles: 10},
		Models: Models{
			Phases:          map[string]Choice{},
			Fallback:        []Choice{},
			Routing:         Routing{Strategy: "fixed", Agents: map[string]string{}, Candidates: []Choice{}, Weights: RouteWeights{Quality: 0.6, Price: 0.4}},
			Timeout:         120 * time.Second,
			IdleTimeout:     3 * time.Minute, // reasoning models may think for a long time without output
			MaxOutputTokens: 16_384,
			LiveText:        true,
			LiveTextEvery:   500 * time.Millisecond,
			CacheRetention:  7 * 24 * time.Hour,
			CacheEntries:    10_000,
			CacheMaxSize:    256 * KiB,
			Budgets:         Budgets{MinOutputTokens: 1024, MinReasoningTokens: 4096, WarnAt: 0.8},
			Breaker:         Breaker{Failures: 5, Pause: 30 * time.Second, LongestPause: 2 * time.Minute, ProbeLease: 15 * time.Second},
			Providers:       defaultProviders(),
			Catalogue:       []CatalogueEntry{},
		},
		Deliberation: Deliberation{
			Mode: "openrouter", PlanBy: "auto", GammaStuckAfter: 30 * time.Second, GammaConflictAt: 3, GammaComplexityOver: 0.8,
			AbortAfter: time.Minute, Iterations: 10, Timeout: 120 * time.Second, OpeningTimeout: 120 * time.Second, ContinueWait: 24 * time.Hour,
			Recoveries: 2, ErrorLimit: 8, RepeatLimit: 2, ViolationLimit: 1, MovesPerTurn: 16, TextLimit: 16 * KiB, Entries: 200,
		},
		Server: Server{
			Address: "127.0.0.1:8080", ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
			IdleTimeout: 2 * time.Minute, ShutdownTimeout: 10 * time.Second, MaxBody: MiB, RequestTimeout: 5 * time.Minute, WatchInterval: 5 * time.Second,
			Webhooks: Webhooks{
				Source: "/rgpt", Max: 100, Timeout: 10 * time.Second, Attempts: 10, FirstWait: 15 * time.Second, LongestWait: 10 * time.Hour,
				MaxConcurrent: 32, MaxEach: 4, DisableAfter: 72 * time.Hour, Retention: 7 * 24 * time.Hour,
			},
		},
		Temporal: Temporal{Address: "127.0.0.1:7233", Namespace: "default"},
		Worker: Worker{
			MaxConcurrentActivities: 32, MaxConcurrentTurns: 512, MaxConcurrentWorkflowTasks: 32, EagerActivities: true, CachedWorkflows: 2000, SpareDirectories: 16, SpareFree: 5 * GiB, TurnsTime: 20 * time.Second, StopTimeout: 30 * time.Second, LostAttempts: 5, HeartbeatsPerSecond: 60, LongestHeartbeatTimeout: 10 * time.Second, Roles: []string{},
			Heartbeat: 5 * time.Second, OfflineAfter: time.Minute, AgentRetention: 24 * time.Hour, ProbeInterval: 15 * time.Second,
		},
		Database: Database{MaxConns: 16},
	}
}

// defaultProviders define the well-known services, so that only a key in the environment and
// models.default are needed to use them.
func defaultProviders() map[string]Provider {
	provider := func(kind, keyEnv string) Provider {
		return Provider{Kind: kind, APIKeyEnv: keyEnv, MaxConcurrent: 8, Headers: map[string]string{}}
	}
	return map[string]Provider{
		"openai":     provider("openai", "OPENAI_API_KEY"),
		"openrouter": provider("openrouter", "OPENROUTER_API_KEY"),
		"anthropic":  provider("anthropic", "ANTHROPIC_API_KEY"),
		"gemini":     provider("gemini", "GEMINI_API_KEY"),
		"ollama":     provider("ollama", ""),
	}
}

// ProtectedFiles returns the default of git.protected, the files that agents may not change
// unnoticed: files that determine what CI and git run, who reviews changes, and what this program
// may do. Repairs may not change them at all.
func ProtectedFiles() []string {
	return []string{
		".github/**", ".gitlab-ci*", ".gitlab-ci/**", ".gitlab/**", ".circleci/**", ".buildkite/**", "**/azure-pipelines*.{yml,yaml}",
		".azure-pipelines/**", "azure-pipelines/**", "cloudbuild.{yml,yaml}", "**/bitbucket-pipelines.yml", ".travis.yml", "{,.}appveyor.yml", ".drone.yml", ".woodpecker*", ".woodpecker/**",
		".forgejo/**", ".gitea/**", ".semaphore/**", ".teamcity/**", ".cirrus*", ".builds/**", ".build.yml", "**/Jenkinsfile*", ".jenkins.{yml,yaml}",
		".tekton/**", ".harness/**", ".evergreen.{yml,yaml}", ".taskcluster.yml", "{,.}zuul.{yml,yaml}", "{,.}zuul.d/**", "**/buildspec*.{yml,yaml}", "**/cloudbuild*.{yml,yaml,json}",
		".drone.{jsonnet,star,yaml}", "{,.}bitrise.{yml,yaml}", "{,.}codemagic.{yml,yaml}", ".vsts-ci.{yml,yaml}", ".prow.{yml,yaml}", ".prow/**", "screwdriver.{yml,yaml}", "{,.}wercker.yml", "{,.}codefresh.{yml,yaml}",
		"netlify.toml", "vercel.json", "amplify.yml", "render.{yml,yaml}", "**/{,.}renovaterc*", "**/renovate.json{,5}", ".mergify.yml", ".mergify/**",
		".gitmodules", ".devcontainer/**", "{,.}devcontainer.json", ".vscode/{tasks,launch,settings}.json", ".claude/**", "{,.}mcp.json", ".cursor/**", ".envrc",
		".githooks/**", ".husky/**", ".pre-commit-config.{yml,yaml}", "{,.}lefthook*.{yml,yaml,toml,json}", "**/CODEOWNERS", ".rgpt/**", "**/rgpt.{,*.}{yml,yaml}",
	}
}
