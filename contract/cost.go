package contract

// MarkEstimated completes an amount of money as text, such as "$0.42": it says that the amount is
// estimated if the price of some of the usage is unknown. Everything that shows a cost uses it.
func MarkEstimated(amount string, estimated bool) string {
	if estimated {
		return amount + " (estimated)"
	}
	return amount
}
