"""What a page shows of single examples: labels, marginals, k best, trees and why, as plain values for JSON."""
