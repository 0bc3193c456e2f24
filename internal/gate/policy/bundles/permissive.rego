# The permissive bundle: only what may harm other systems is denied. Everything else is information.
package rgpt.permissive

import data.rgpt.lib

denied(f) if {
	f.severity == "major"
	f.guard == "secrets"
}

# What was not examined could contain a secret.
denied(f) if {
	f.severity == "medium"
	f.guard == "secrets"
	lib.unreadable(f)
}

denied(f) if {
	f.severity == "major"
	lib.escapes(f)
}

deny contains lib.reason(f) if {
	some f in input.findings
	denied(f)
}

info contains lib.reason(f) if {
	some f in input.findings
	not denied(f)
}

default automerge := false

automerge if {
	input.stage == "release"
	lib.labelled(input.rules.labels.automerge)
	not lib.labelled(input.rules.labels.blocked)
}
