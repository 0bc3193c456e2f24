# The default bundle. Major findings stop a change: some always, the others until a named person
# approves that it leaves the host. Medium and minor findings are information, except those about what
# could not be examined or looked up.
package rgpt.defaults

import data.rgpt.lib

# Guards whose major findings no approval outweighs.
forbidden_guards := {"secrets"}

# verdict decides about a major finding.
verdict(f) := "deny" if {
	f.guard in forbidden_guards
	not lib.unreadable(f)
} else := "deny" if {
	lib.escapes(f)
} else := "deny" if {
	lib.deletes(f)
} else := "deny" if {
	lib.outside(f)
} else := "deny" if {
	# A repair answers a failure, whose text may be hostile.
	lib.protected(f)
	input.author == "repair"
} else := "info" if {
	not lib.final
} else := "deny" if {
	# Before, verification reports them, and the Repair agent can restore them.
	f.guard in {"syntax", "tests"}
	not lib.unreadable(f)
} else := "deny" if {
	lib.blocked(f)
} else := "deny" if {
	lib.beyond(f)
} else := "ask" if {
	leaves
} else := "info"

# leaves: the change goes to where others see it, or it is not known that it does not.
leaves if input.run.pushes

leaves if input.stage == "check"

# A comprehension, because OPA evaluates it once: a rule for each finding would be evaluated for each
# question about one.
majors := [{"finding": f, "verdict": verdict(f)} |
	some f in input.findings
	weighs(f)
]

# weighs: a finding that decides. What was not examined could be anything.
weighs(f) if f.severity == "major"

weighs(f) if {
	f.severity == "medium"
	lib.unreadable(f)
}

weighs(f) if {
	f.severity == "medium"
	lib.unaged(f)
}

deny contains lib.reason(m.finding) if {
	some m in majors
	m.verdict == "deny"
}

needs_approval contains lib.reason(m.finding) if {
	some m in majors
	m.verdict == "ask"
}

info contains lib.reason(m.finding) if {
	some m in majors
	m.verdict == "info"
}

info contains lib.reason(f) if {
	some f in input.findings
	not weighs(f)
	not asked(f)
}

# asked: a label asks for a person, or is misspelt, so that it is not known what it asks for.
asked(f) if {
	lib.final
	f.guard == "labels"
	f.rule in {"needs-approval", "unknown"}
	not weighs(f)
}

needs_approval contains lib.reason(f) if {
	some f in input.findings
	asked(f)
}

deny contains {"text": text, "guard": "labels", "rule": "blocked"} if {
	lib.final
	some label in input.labels
	label in input.rules.labels.blocked
	not labels_reported
	text := sprintf("the label %v forbids a release; remove it from the run when the reason for it is gone", [label])
}

labels_reported if {
	some f in input.findings
	lib.blocked(f)
}

needs_approval contains {"text": text, "guard": "labels", "rule": "review"} if {
	lib.final
	some label in input.labels
	label in input.rules.labels.review
	not review_reported
	text := sprintf("the label %v requires that a person reviews the change", [label])
}

review_reported if {
	some f in input.findings
	f.guard == "labels"
	f.rule == "needs-approval"
}

needs_approval contains {"text": text} if {
	lib.final
	input.change.unread > 0
	not unread_reported
	text := sprintf("%d changed files were not examined because there are too many; review them, or split the change", [input.change.unread])
}

unread_reported if {
	some f in input.findings
	f.guard == "rewrite"
	f.rule == "unread"
}

# A release may be merged by itself if a label says so and nothing speaks against it.
default automerge := false

automerge if {
	input.stage == "release"
	wants_merge
	not lib.labelled(input.rules.labels.blocked)
	not lib.labelled(input.rules.labels.review)
	every f in input.findings { f.severity == "minor" }
}

wants_merge if lib.labelled(input.rules.labels.automerge)

wants_merge if {
	some f in input.findings
	f.guard == "labels"
	f.rule == "automerge"
}
