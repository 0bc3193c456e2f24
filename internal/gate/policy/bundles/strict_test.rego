package rgpt.strict_test

import data.rgpt.defaults_test as d
import data.rgpt.strict

test_medium_findings_need_an_approval_of_the_release if {
	f := d.found("medium", "tests", "weaker")
	count(strict.needs_approval) == 1 with input as d.change("release", "run", [f])
	count(strict.info) == 0 with input as d.change("release", "run", [f])
	count(strict.needs_approval) == 0 with input as d.change("step", "builder", [f])
}

test_syntax_errors_are_denied_in_steps if {
	count(strict.deny) == 1 with input as d.change("step", "builder", [d.found("major", "syntax", "error")])
}

test_what_the_default_bundle_denies_is_denied if {
	count(strict.deny) == 1 with input as d.change("release", "run", [d.found("major", "secrets", "key")])
}
