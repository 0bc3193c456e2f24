package temporal

import (
	"context"
	"fmt"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
)

// RegisterSearchAttributes registers our search attributes that are missing in a namespace, because
// runs cannot start without them. An attribute that exists with another type does not change.
func RegisterSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	service := c.OperatorService()
	known, err := service.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("list the search attributes of namespace %s: %w", namespace, err)
	}
	missing := map[string]enums.IndexedValueType{}
	for _, a := range contract.SearchAttributes() {
		if _, ok := known.GetCustomAttributes()[a[0]]; !ok {
			if missing[a[0]], err = enums.IndexedValueTypeFromString(a[1]); err != nil {
				return fmt.Errorf("search attribute %s: %w", a[0], err)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = service.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
	if err != nil {
		return fmt.Errorf("register search attributes in namespace %s (rgpt doctor prints the command): %w", namespace, err)
	}
	return nil
}
