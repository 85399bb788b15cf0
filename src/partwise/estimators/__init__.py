"""The estimators' common base: parameters, fitting, prediction and model files, for all tasks.

Read `base` first: `StructuredEstimator.fit` reads data, builds a problem and solves it. `linear` adds
features and weights, `kernel_base` kernel functions, `warm_start` fits that continue, `saving` model files. `encoders`
turn tokens into rows of features, and `model` is a trained model without its training data. `predictions` and `explain`
are what all linear models answer. The public classes are in the folders of `partwise.tasks`.
"""
