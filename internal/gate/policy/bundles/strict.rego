# The strict bundle: the default one, which also asks about medium findings and about changes
# that stay on the host, denies a step that leaves new syntax errors, tests that prove less, text
# that instructs agents, or dependencies that do not exist, and wants each release reviewed by
# another model.
package rgpt.strict

import data.rgpt.defaults
import data.rgpt.lib

deny contains r if some r in defaults.deny

deny contains lib.reason(f) if {
	some f in input.findings
	f.severity == "major"
	f.guard in {"syntax", "tests", "injection"}
	not lib.unreadable(f)
}

deny contains lib.reason(f) if {
	some f in input.findings
	f.severity == "major"
	lib.invented(f)
}

denied := {r.id | some r in deny}

needs_approval contains r if {
	some r in defaults.needs_approval
	not denied[r.id]
}

needs_approval contains lib.reason(f) if {
	some f in input.findings
	asks(f)
	not f.id in denied
}

asks(f) if {
	lib.final
	f.severity in {"major", "medium"}
}

info contains r if {
	some r in defaults.info
	not r.id in stopped
}

stopped := denied | {r.id | some r in needs_approval}

review contains {"text": "another model than the author's must review each release"} if lib.final

default automerge := false

automerge := defaults.automerge
