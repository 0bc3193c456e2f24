package temporal

import "go.temporal.io/sdk/converter"

// Converter returns what turns values into what histories hold, and back: that
// of every client and worker of an installation.
func Converter() converter.DataConverter { return converter.GetDefaultDataConverter() }
