package rgpt.defaults_test

import data.rgpt.defaults

found(severity, guard, rule) := {
	"id": "1", "guard": guard, "rule": rule, "path": "a", "line": 0, "severity": severity, "message": "look",
}

change(stage, author, findings) := {
	"version": 1, "stage": stage, "author": author, "findings": findings, "labels": [],
	"run": {"pushes": true}, "change": {"files": [], "unread": 0},
	"rules": {"labels": {"allowed": [], "automerge": ["automerge"], "blocked": ["blocked"], "review": ["review"]}},
}

test_a_secret_is_denied_at_every_stage if {
	every stage in ["step", "repair", "plan", "release", "check"] {
		count(defaults.deny) == 1 with input as change(stage, "builder", [found("major", "secrets", "key")])
	}
}

test_a_protected_path_is_asked_about_once if {
	f := found("major", "rewrite", "protected")
	count(defaults.needs_approval) == 0 with input as change("step", "builder", [f])
	count(defaults.info) == 1 with input as change("step", "builder", [f])
	count(defaults.needs_approval) == 1 with input as change("release", "run", [f])
	count(defaults.deny) == 0 with input as change("release", "run", [f])
}

test_a_repair_may_not_change_a_protected_path if {
	count(defaults.deny) == 1 with input as change("repair", "repair", [found("major", "workflow", "ci")])
}

test_minor_findings_are_information if {
	doc := change("release", "run", [found("minor", "secrets", "key")])
	count(defaults.deny) == 0 with input as doc
	count(defaults.needs_approval) == 0 with input as doc
	count(defaults.info) == 1 with input as doc
}

test_files_that_were_not_examined_need_an_approval if {
	doc := json.patch(change("release", "run", []), [{"op": "replace", "path": "/change/unread", "value": 3}])
	some r in defaults.needs_approval with input as doc
	contains(r.text, "3 changed files")
}

test_what_is_beyond_the_limits_is_denied_at_the_release if {
	every rule in ["unread", "file-size", "size"] {
		count(defaults.deny) == 1 with input as change("release", "run", [found("major", "rewrite", rule)])
		count(defaults.deny) == 0 with input as change("step", "builder", [found("major", "rewrite", rule)])
	}
	count(defaults.needs_approval) == 1 with input as change("release", "run", [found("major", "rewrite", "lines")])
}

test_a_blocked_release_is_denied_once if {
	labelled := object.union(change("release", "run", []), {"labels": ["blocked"]})
	count(defaults.deny) == 1 with input as labelled
	reported := object.union(labelled, {"findings": [found("major", "labels", "blocked")]})
	count(defaults.deny) == 1 with input as reported
}

test_automerge_needs_its_label if {
	doc := change("release", "run", [])
	not defaults.automerge with input as doc
	defaults.automerge with input as object.union(doc, {"labels": ["automerge"]})
	not defaults.automerge with input as object.union(doc, {"labels": ["automerge", "review"]})
}

test_major_findings_of_a_review_ask_about_what_leaves_the_host if {
	every rule in ["goal", "correctness", "security", "tests", "scope", "unavailable", "missing"] {
		doc := change("release", "run", [found("major", "review", rule)])
		count(defaults.needs_approval) == 1 with input as doc
		count(defaults.deny) == 0 with input as doc
		local := object.union(doc, {"run": {"pushes": false}})
		count(defaults.needs_approval) == 0 with input as local
		count(defaults.info) == 1 with input as local
	}
	count(defaults.needs_approval) == 1 with input as change("release", "run", [found("medium", "review", "unexamined")])
	count(defaults.needs_approval) == 0 with input as change("release", "run", [found("minor", "review", "tests")])
}

test_young_missing_and_unknown_dependencies_ask if {
	every rule in ["young", "not-found", "no-version"] {
		count(defaults.needs_approval) == 1 with input as change("release", "run", [found("major", "dependencies", rule)])
		count(defaults.info) == 1 with input as change("step", "builder", [found("major", "dependencies", rule)])
	}
	every rule in ["age-unknown", "local"] {
		doc := change("release", "run", [found("medium", "dependencies", rule)])
		count(defaults.needs_approval) == 1 with input as doc
		count(defaults.needs_approval) == 0 with input as object.union(doc, {"run": {"pushes": false}})
		count(defaults.info) == 1 with input as change("step", "builder", [found("medium", "dependencies", rule)])
		lowered := change("release", "run", [found("minor", "dependencies", rule)])
		count(defaults.needs_approval) == 0 with input as lowered
		count(defaults.info) == 1 with input as lowered
	}
}
