//go:build tools

// Package metricsserver pins what measures pods and nodes in the embedded cluster, for those who ask for it.
package metricsserver

import (
	_ "sigs.k8s.io/metrics-server/cmd/metrics-server"
)
