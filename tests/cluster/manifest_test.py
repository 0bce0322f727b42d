"""The recipe for Kubernetes is accepted, and each of these mistakes in it is refused."""

import os
import pathlib
import tempfile
import unittest

import manifest

RECIPE = pathlib.Path(__file__).resolve().parents[2] / "trainer/recipes/kubernetes.yaml"
MISTAKES = [
    ('value: "6"', "value: 6", "is not a str"),
    ("parallelism: 6", 'parallelism: "6"', "is not a int"),
    ("completionMode: Indexed", "completionmode: Indexed", "no field 'completionmode'"),
    ("          image: registry.example/anello:latest  # yours\n", "", "with an image"),
    ("        - name: rank\n          image", "        - image", "`name`"),
    ("backoffLimit: 0", "completions: 6", "twice"),
    ("kind: Service", "kind: Servise", "is unknown here"),
    ("apiVersion: batch/v1", "apiVersion: batch/v2", "is unknown here"),
    ('command: ["anello-train"]', "command: anello-train", "is not a list"),
    ("  name: anello\nspec:\n  clusterIP", "  name: Anello\nspec:\n  clusterIP", "not a name for DNS"),
    ("      subdomain: anello\n", "", "subdomain is not the service's name"),
    ("job-name: anello", "job-name: other", "does not select"),
    ("clusterIP: None  #", "#", "headless"),
    ("parallelism: 6", "parallelism: 3", "run at once"),
    ("restartPolicy: Never", "restartPolicy: Always", "restartPolicy"),
    ("            - name: secret\n              mountPath", "            - name: secrets\n              mountPath",
     "no volume 'secrets'"),
]


class Manifest(unittest.TestCase):
    def test_the_recipe_is_accepted(self):
        job, service = manifest.read(RECIPE)
        self.assertEqual((job.metadata.name, service.metadata.name), ("anello", "anello"))

    def test_mistakes_are_refused(self):
        recipe = RECIPE.read_text(encoding="utf-8")
        for right, wrong, reason in MISTAKES:
            with self.subTest(wrong), tempfile.TemporaryDirectory() as folder:
                self.assertEqual(recipe.count(right), 1, right)
                file = os.path.join(folder, "manifest.yaml")
                pathlib.Path(file).write_text(recipe.replace(right, wrong), encoding="utf-8")
                with self.assertRaises(manifest.ManifestError) as refused:
                    manifest.read(file)
                self.assertIn(reason, str(refused.exception))


if __name__ == "__main__":
    unittest.main()
