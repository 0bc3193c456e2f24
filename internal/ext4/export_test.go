package ext4

// WithoutJournal is withoutJournal, for tests.
var WithoutJournal = withoutJournal

// TopDirectory is topDirectory, for tests.
const TopDirectory = topDirectory
