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

test_dependencies_that_do_not_exist_are_denied if {
	every rule in ["not-found", "no-version"] {
		count(strict.deny) == 1 with input as d.change("step", "builder", [d.found("major", "dependencies", rule)])
		count(strict.needs_approval) == 0 with input as d.change("release", "run", [d.found("major", "dependencies", rule)])
	}
	count(strict.deny) == 0 with input as d.change("release", "run", [d.found("medium", "dependencies", "not-found")])
}

test_ages_of_dependencies_are_asked_about_at_the_release if {
	every f in [d.found("major", "dependencies", "young"), d.found("medium", "dependencies", "age-unknown")] {
		count(strict.needs_approval) == 1 with input as d.change("release", "run", [f])
		count(strict.deny) == 0 with input as d.change("release", "run", [f])
		count(strict.needs_approval) == 0 with input as d.change("step", "builder", [f])
	}
}

test_what_the_default_bundle_denies_is_denied if {
	count(strict.deny) == 1 with input as d.change("release", "run", [d.found("major", "secrets", "key")])
}

test_a_release_must_be_reviewed if {
	count(strict.review) == 1 with input as d.change("release", "run", [])
	count(strict.review) == 0 with input as d.change("step", "builder", [])
}

test_a_review_that_failed_or_is_missing_asks if {
	every rule in ["unavailable", "missing", "correctness"] {
		local := object.union(d.change("release", "run", [d.found("major", "review", rule)]), {"run": {"pushes": false}})
		count(strict.needs_approval) == 1 with input as local
		count(strict.deny) == 0 with input as local
	}
}
