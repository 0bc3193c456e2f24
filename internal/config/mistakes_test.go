package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
)

func TestMistakesSayWhereAndWhatWasExpected(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"a word for a number", "execution:\n  max_retries: many", `FILE:2: execution.max_retries: expected a whole number from 0 to 20, got "many"`},
		{"a quoted number", "execution: {max_retries: \"3\"}", `FILE:1: execution.max_retries: expected a whole number from 0 to 20, got "3"`},
		{"a number with decimals", "execution: {max_retries: 1.5}", `FILE:1: execution.max_retries: expected a whole number from 0 to 20, got 1.5`},
		{"a hexadecimal number", "execution: {max_retries: 0x3}", `FILE:1: execution.max_retries: expected a whole number from 0 to 20, got 0x3`},
		{"a number that does not fit", "execution: {step: {tokens: 99999999999999999999}}", `FILE:1: execution.step.tokens: expected a whole number of at least 0, got 99999999999999999999`},
		{"a number out of range", "\n\nexecution:\n  parallel_steps: 0", `FILE:4: execution.parallel_steps: expected a whole number from 1 to 64, got 0`},
		{"a fraction out of range", "models: {budgets: {warn_at: 80}}", `FILE:1: models.budgets.warn_at: expected a number from 0 to 1, got 80`},
		{"a fraction that is none", "models: {budgets: {warn_at: .nan}}", `FILE:1: models.budgets.warn_at: expected a number from 0 to 1, got .nan`},
		{"yes for true", "models: {cache_identical: yes}", `FILE:1: models.cache_identical: expected true or false, got "yes"`},
		{"a toggle", "verification: {test: {enabled: maybe}}", `FILE:1: verification.test.enabled: expected auto, true or false, got "maybe"`},
		{"a duration without unit", "models: {timeout: 30}", `FILE:1: models.timeout: expected a duration (such as 30s, 5m or 24h) from 1s to 1h, got 30`},
		{"a duration out of range", "models: {timeout: 5h}", `FILE:1: models.timeout: expected a duration (such as 30s, 5m or 24h) from 1s to 1h, got 5h`},
		{"a size with a wrong unit", "execution: {max_goal_bytes: 3 parsecs}", `FILE:1: execution.max_goal_bytes: expected a size (such as 64KiB or 10MB) from 1KiB to 1MiB, got "3 parsecs"`},
		{"a size out of range", "execution: {max_goal_bytes: 2MiB}", `FILE:1: execution.max_goal_bytes: expected a size (such as 64KiB or 10MB) from 1KiB to 1MiB, got 2MiB`},
		{"money with a currency", "execution: {run: {cost_usd: $5}}", `FILE:1: execution.run.cost_usd: expected a US dollar amount (such as 2.50) of at least 0, got "$5"`},
		{"negative money", "execution: {run: {cost_usd: -0.5}}", `FILE:1: execution.run.cost_usd: expected a US dollar amount (such as 2.50) of at least 0, got -0.5`},
		{"money below a millionth", "execution: {run: {cost_usd: 0.0000001}}", `FILE:1: execution.run.cost_usd: expected a US dollar amount (such as 2.50) of at least 0, got 0.0000001`},
		{"a word that YAML reads as true", "verification: {test: {command: true}}", `FILE:1: verification.test.command: expected a string, got true (put it in quotes)`},
		{"nothing for a value", "execution:\n  max_retries:", `FILE:2: execution.max_retries: expected a whole number from 0 to 20, got nothing`},
		{"one of several words", "logging: {level: loud}", `FILE:1: logging.level: expected one of debug, info, warn, error, got "loud"`},
		{"a list for a text", "logging: {level: [info]}", `FILE:1: logging.level: expected one of debug, info, warn, error, got a list`},
		{"a text for a list", "worker: {roles: run}", `FILE:1: worker.roles: expected a list, got "run"`},
		{"a wrong entry of a list", "worker:\n  roles:\n    - run\n    - king", `FILE:4: worker.roles[1]: expected one of run, planner, builder, tester, releaser, analyzer, repair, got "king"`},
		{"nothing in a list", "worker:\n  roles:\n    -", `FILE:3: worker.roles[0]: expected one of run, planner, builder, tester, releaser, analyzer, repair, got nothing`},
		{"a text for a section", "execution: fast", `FILE:1: execution: expected a mapping, got "fast"`},
		{"a list for everything", "- a", `FILE:1: expected a mapping, got a list`},
		{"a typing mistake", "execution:\n  parallel_step: 4", `FILE:2: execution.parallel_step: unknown key; did you mean parallel_steps?`},
		{"a key that nobody knows", "findings: {nonsense: 4}", `FILE:1: findings.nonsense: unknown key; expected one of max_major, max_medium`},
		{"a section with a typing mistake", "excution: {}", `FILE:1: excution: unknown section; did you mean execution?`},
		{"a section that nobody knows", "zoo: {}", `FILE:1: zoo: unknown section; expected one of execution, findings, verification, environment, git, gate, forges, triggers, notifications, artifacts, brain, retention, ledger, logging, models, deliberation, server, temporal, worker, database`},
		{"a secret", "models: {providers: {openai: {api_key: sk-123}}}", `FILE:1: models.providers.openai.api_key: unknown key; secrets do not belong in this file; use api_key_env or api_key_file`},
		{"a secret in place of its name", "models: {providers: {openai: {api_key_env: sk-123}}}", `FILE:1: models.providers.openai.api_key_env: expected the name of an environment variable, not its value, got a value that is not shown because it may be secret`},
		{"a database that is none", "database: {url: \"mysql://u:p@h/d\"}", `FILE:1: database.url: expected a URL such as postgres://user@host:5432/name, got a value that is not shown because it may be secret`},
		{"a key twice", "execution:\n  max_retries: 1\n  max_retries: 2", `FILE:3: execution.max_retries: is set twice, first on line 2`},
		{"a section twice", "findings: {}\ngit: {}\nfindings: {}", `FILE:3: findings: is set twice, first on line 1`},
		{"merge keys", "execution: &e {max_retries: 1}\ngit: {<<: *e}", `FILE:2: git: << is not supported; write the keys out`},
		{"a key that is no name", "? [a]\n: b", `FILE:1: invalid key; expected a name`},
		{"two documents", "git: {}\n---\ngit: {}", `FILE: expected a single YAML document`},
		{"broken YAML", "git:\n  push: [", `FILE:2: invalid YAML: did not find expected node content`},
		{"a tab", "git:\n\trelease: push", `FILE:2: invalid YAML: found character that cannot start any token`},
		{"an unknown anchor", "git: *nobody", `FILE: invalid YAML: unknown anchor 'nobody' referenced`},
		{"a provider's bad name", "models: {providers: {My Box: {kind: ollama}}}", `FILE:1: models.providers.My Box: invalid key; expected a name that begins with a letter and contains only lower-case letters, digits, - and _`},
		{"a provider without kind", "models: {providers: {box: {base_url: \"http://h\"}}}", `FILE:1: models.providers.box.kind: is missing; expected one of openai, azure, openrouter, anthropic, bedrock, vertex, gemini, ollama, compatible, scripted`},
		{"a provider without address", "models: {providers: {box: {kind: compatible}}}", `FILE:1: models.providers.box.base_url: is missing; providers of kind "compatible" have no default URL`},
		{"Azure without address", "models: {providers: {box: {kind: azure}}}", `FILE:1: models.providers.box.base_url: is missing; providers of kind "azure" have no default URL`},
		{"an API of another kind", "models: {providers: {box: {kind: anthropic, api: chat}}}", `FILE:1: models.providers.box.api: is allowed only for the kinds openai, azure, compatible, scripted`},
		{"an unknown API", "models: {providers: {box: {kind: openai, api: assistants}}}", `FILE:1: models.providers.box.api: expected one of chat, responses, got "assistants"`},
		{"an address that is none", "models: {providers: {box: {kind: compatible, base_url: \"ftp://h\"}}}", `FILE:1: models.providers.box.base_url: expected an http or https URL, got a value that is not shown because it may be secret`},
		{"a header's bad name", "models: {providers: {openai: {headers: {\"a b\": c}}}}", `FILE:1: models.providers.openai.headers.a b: invalid key; expected the name of an HTTP header`},
		{"an unknown provider", "models:\n  default: {provider: opnai, model: m}", `FILE:2: models.default.provider: expected one of the configured providers (anthropic, gemini, ollama, openai, openrouter), got "opnai"`},
		{"a choice without model", "models: {default: {provider: ollama}}", `FILE:1: models.default.model: is missing; expected the provider's name for a model`},
		{"a phase without provider", "models: {phases: {builder: {model: m}}}", `FILE:1: models.phases.builder.provider: is missing; expected one of the configured providers (anthropic, gemini, ollama, openai, openrouter)`},
		{"an unknown agent", "models: {phases: {painter: {provider: openai, model: m}}}", `FILE:1: models.phases.painter: invalid key; expected one of planner, builder, tester, releaser, analyzer, repair, alpha, beta, gamma`},
		{"a temperature out of range", "models: {phases: {builder: {temperature: 3}}}", `FILE:1: models.phases.builder.temperature: expected a number from 0 to 2, got 3`},
		{"a catalogue entry of nobody", "models: {catalogue: [{provider: x, model: m}]}", `FILE:1: models.catalogue[0].provider: expected one of the configured providers (anthropic, gemini, ollama, openai, openrouter), got "x"`},
		{"a check without command", "verification:\n  custom:\n    - name: a", `FILE:3: verification.custom[0].command: is missing; expected a non-empty string`},
		{"two checks of one name", "verification: {custom: [{name: a, command: x}, {name: a, command: y}]}", `FILE:1: verification.custom[1].name: expected a unique name; "a" is already used`},
		{"a report elsewhere", "verification: {test: {report: ../../x}}", `FILE:1: verification.test.report: expected a path or glob inside the repository, got "../../x"`},
		{"a branch that git refuses", "git: {branch_prefix: \"-x..y\"}", `FILE:1: git.branch_prefix: expected a git branch name prefix such as rgpt/run-, got "-x..y"`},
		{"an address without port", "server: {address: localhost}", `FILE:1: server.address: expected an address and port such as 127.0.0.1:8080, got "localhost"`},
		{"a store that is none", "artifacts: {url: \"ftp://x\"}", `FILE:1: artifacts.url: expected a URL such as s3://bucket or file:///path, got a value that is not shown because it may be secret`},
		{"half a certificate", "temporal: {tls: {enabled: true, cert_file: c.pem}}", `FILE:1: temporal.tls.key_file: is missing; temporal.tls.cert_file requires it`},
		{"a key without TLS", "temporal:\n  api_key_env: KEY", `FILE:1: temporal.tls.enabled: must be true, because temporal.api_key_env is set and an API key requires TLS`},
		{"a relative folder", "execution: {sandbox: {read_only: [opt]}}", `FILE:1: execution.sandbox.read_only[0]: expected an absolute path, got "opt"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, t.TempDir(), "rgpt.yaml", tt.in)
			_, err := config.Load(config.Sources{Project: path, Env: []string{}})
			require.Error(t, err)
			require.Equal(t, "the configuration is invalid:\n  "+tt.want, strings.ReplaceAll(err.Error(), path, "FILE"))
		})
	}
}

func TestMistakesOfTheEnvironmentAndFlagsNameThem(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Sources{
		Env: []string{
			"RGPT_EXECUTION_MAX_RETRIES=many", "RGPT_EXECUTION_NONSENSE=1", "RGPT_WORKER_ROLES=run,king", "TEMPORAL_ADDRESS=nowhere",
			"DATABASE_URL=mysql://u:secret@h/d", "RGPT_MODELS_PROVIDERS_OPENAI_HEADERS=x",
		},
		Flags: map[string]string{"execution.parallel_step": "1", "git": "x", "server.address": "x", "": "x", "findings.max_major": "-1"},
	})
	require.Error(t, err)
	require.Equal(t, `the configuration has 11 errors:
  environment variable DATABASE_URL: database.url: expected a URL such as postgres://user@host:5432/name, got a value that is not shown because it may be secret
  environment variable TEMPORAL_ADDRESS: temporal.address: expected a host and port such as 127.0.0.1:7233, got "nowhere"
  environment variable RGPT_EXECUTION_MAX_RETRIES: execution.max_retries: expected a whole number from 0 to 20, got "many"
  environment variable RGPT_EXECUTION_NONSENSE: unknown setting; docs/CONFIGURATION.md lists all settings
  environment variable RGPT_MODELS_PROVIDERS_OPENAI_HEADERS: unknown setting; docs/CONFIGURATION.md lists all settings
  environment variable RGPT_WORKER_ROLES: worker.roles[1]: expected one of run, planner, builder, tester, releaser, analyzer, repair, got "king"
  flag : unknown section; expected one of execution, findings, verification, environment, git, gate, forges, triggers, notifications, artifacts, brain, retention, ledger, logging, models, deliberation, server, temporal, worker, database
  flag execution.parallel_step: unknown key; did you mean parallel_steps?
  flag findings.max_major: expected a whole number from 0 to 1000000, got -1
  flag git: is a section; set one of its keys
  flag server.address: expected an address and port such as 127.0.0.1:8080, got "x"`, err.Error())
}

func TestEveryMistakeOfEveryFileIsListedInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := write(t, dir, "base.yaml", "logging:\n  level: loud\n  format: xml\n")
	project := write(t, dir, "rgpt.yaml", "git: {release: 1}\nfindings:\n  max_major: -1\nzoo:\n")
	local := write(t, dir, "rgpt.local.yaml", "execution: {max_retries: x}\n")
	_, err := config.Load(config.Sources{Base: base, Project: project, Env: []string{}})
	require.Error(t, err)
	text := strings.NewReplacer(base, "BASE", project, "PROJECT", local, "LOCAL").Replace(err.Error())
	require.Equal(t, `the configuration has 6 errors:
  BASE:2: logging.level: expected one of debug, info, warn, error, got "loud"
  BASE:3: logging.format: expected one of auto, json, text, got "xml"
  PROJECT:1: git.release: expected one of branch, push, pull_request, got 1 (put it in quotes)
  PROJECT:3: findings.max_major: expected a whole number from 0 to 1000000, got -1
  PROJECT:4: zoo: unknown section; expected one of execution, findings, verification, environment, git, gate, forges, triggers, notifications, artifacts, brain, retention, ledger, logging, models, deliberation, server, temporal, worker, database
  LOCAL:1: execution.max_retries: expected a whole number from 0 to 20, got "x"`, text)
}

func TestAFileThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	_, err := load(t, strings.Repeat("#", 1<<20)+"\n")
	require.ErrorContains(t, err, "cannot be read: it is larger than 1MiB")
}

func FuzzLoad(f *testing.F) {
	f.Add("execution: {max_retries: 3}")
	f.Add("models: {providers: {a: {kind: ollama, headers: {x: y}}}}")
	f.Add("verification: {custom: [{name: a, command: b}, null, 3]}")
	f.Add("a: &a [*a]\nexecution: {sandbox: {read_only: *a}}")
	f.Add("models: {providers: {\"a]b.c[\": {kind: x, headers: {\"[0].y\": \"\\n\"}}}}")
	f.Add("models: {providers: {\"1\": {}}, phases: {\"\": {model: x}}}")
	f.Fuzz(func(t *testing.T, content string) {
		base := config.Default()
		c, err := config.LoadRepository(base, []byte(content), "rgpt.yaml")
		require.Equal(t, config.Values(config.Default()), config.Values(base), "the operator's settings changed")
		if err == nil {
			again, err := config.LoadRepository(c, []byte(content), "rgpt.yaml")
			require.NoError(t, err, "what was accepted once is accepted again")
			require.Equal(t, config.Values(c), config.Values(again))
		}
		operator, err := config.LoadText(content)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotNil(t, operator)
	})
}
