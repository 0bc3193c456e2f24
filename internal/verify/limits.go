package verify

// Bounds on what is kept of a check.
const (
	maxMessages  = 2 << 20 // bytes of all messages of its cases together
	maxLog       = 512 << 10
	maxReports   = 500
	maxArtifacts = 200
	maxOutput    = 16 << 20 // bytes of a stream that is a report itself
)
