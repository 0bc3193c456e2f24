package rgpt.permissive_test

import data.rgpt.defaults_test as d
import data.rgpt.permissive

test_only_secrets_and_escapes_are_denied if {
	count(permissive.deny) == 1 with input as d.change("step", "builder", [d.found("major", "secrets", "key")])
	count(permissive.deny) == 1 with input as d.change("step", "builder", [d.found("major", "rewrite", "link-outside")])
	every guard in ["tests", "injection", "workflow", "syntax", "labels", "refactor", "review"] {
		count(permissive.deny) == 0 with input as d.change("release", "run", [d.found("major", guard, "rule")])
		count(permissive.info) == 1 with input as d.change("release", "run", [d.found("major", guard, "rule")])
	}
}
