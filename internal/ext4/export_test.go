package ext4

// WithoutJournal is withoutJournal, for tests.
var WithoutJournal = withoutJournal
